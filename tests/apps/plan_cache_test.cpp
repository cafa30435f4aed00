// Kept plans: found again, by their key alone, whole or not at all, and never too many.
#include "apps/runner/plan_cache.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_support::read_file;
using testing_support::temporary_folder;
using testing_support::write_file;
using texts = std::vector<std::pair<std::string, std::string>>;

planner::plan two_stages() {
  planner::plan p;
  p.model = "tiny";
  p.threads = 1;
  p.stages = {{.first_layer = "a", .last_layer = "b"}, {.first_layer = "c", .last_layer = "c"}};
  p = planner::settled(p);
  p.inputs["tried"] = "both";
  return p;
}

planner::profile some_profile() {
  planner::profile p;
  p.model = "tiny";
  p.layers = {{.name = "a", .inputs = {-1}}, {.name = "b", .inputs = {0}}, {.name = "c", .inputs = {1}}};
  p.measurements.push_back({.layers = std::vector<planner::layer_cost>(3, {.forward_seconds = 1})});
  return p;
}

class PlanCache : public testing::Test {
protected:
  plan_cache cache(const texts& key = {{"batch", "32"}}, bool refresh = false) const {
    return {{.folder = folder_ / "plans", .refresh = refresh, .note = ""}, "tiny", key};
  }
  fs::path keep(const plan_cache& c, planner::plan p = two_stages()) {
    auto file = c.keep(p, some_profile(), planner::flat_cluster(2, 1e9), listen());
    return file;
  }
  std::function<void(const std::string&)> listen() {
    return [this](const std::string& line) { said_.push_back(line); };
  }

  temporary_folder folder_;
  std::vector<std::string> said_;
};

TEST_F(PlanCache, FindsWhatItKeptAndSaysWhenThatWasMeasured) {
  EXPECT_FALSE(cache().find(listen()));
  const auto file = keep(cache());
  EXPECT_THAT(said_, testing::IsEmpty());
  EXPECT_EQ(file, cache().file());
  const auto found = cache().find(listen());
  ASSERT_TRUE(found);
  EXPECT_EQ(planner::describe_stages(*found), "a..b x1 | c x1");
  EXPECT_EQ(found->inputs.at("tried"), "both");
  EXPECT_THAT(measured_at(*found), HasSubstr(" UTC"));
  EXPECT_TRUE(said_.empty());
  EXPECT_EQ(planner::describe_stages(planner::plan_from_json(read_file(file), "kept")), "a..b x1 | c x1")
      << "an entry is a plan's file";
  EXPECT_EQ(folder_.names().size(), 1U);
}

TEST_F(PlanCache, TellsKeysApart) {
  keep(cache());
  for (const auto& other : {texts{{"batch", "64"}}, texts{{"batch", "32"}, {"", ""}}, texts{}, texts{{"batch3", "2"}}})
    EXPECT_FALSE(cache(other).find(listen()));
  fs::copy_file(cache().file(), cache({{"batch", "64"}}).file());
  EXPECT_FALSE(cache({{"batch", "64"}}).find(listen())) << "another's entry under this one's name";
  EXPECT_EQ(said_.size(), 1U);
}

TEST_F(PlanCache, MeasuresAnewWhereAskedAndKeepsNothingWhereOff) {
  keep(cache());
  EXPECT_FALSE(cache({{"batch", "32"}}, true).find(listen()));
  EXPECT_FALSE(keep(cache({{"batch", "32"}}, true)).empty());
  const plan_cache off({}, "tiny", {});
  EXPECT_TRUE(keep(off).empty());
  EXPECT_FALSE(off.find(listen()));
  EXPECT_TRUE(said_.empty());
}

TEST_F(PlanCache, DoesNotUseADamagedEntryAndMakesItAnew) {
  const auto file = keep(cache());
  ASSERT_TRUE(said_.empty());
  const auto whole = read_file(file);
  const auto broken = [&](const std::string& text) {
    write_file(file, text);
    said_.clear();
    EXPECT_FALSE(cache().find(listen())) << text;
    ASSERT_EQ(said_.size(), 1U);
    EXPECT_THAT(said_[0], testing::AllOf(HasSubstr("plan cache: "), HasSubstr(file.string())));
    EXPECT_EQ(said_[0].find('\n'), std::string::npos);
  };
  for (const std::string text : {"", "{", "{}", "not a plan", "\xff\xfe", "[[device]]\n"})
    broken(text);
  for (std::size_t size = 1; size < whole.size(); size += 97)
    broken(whole.substr(0, size));
  for (std::size_t at = 2; at + 2 < whole.size(); at += 41) { // any other letter, wherever it stands
    auto changed = whole;
    if (changed[at] == ' ' || changed[at] == '\n') continue;
    changed[at] = changed[at] == 'x' ? 'y' : 'x';
    broken(changed);
  }
  fs::remove(file);
  fs::create_directory(file);
  said_.clear();
  EXPECT_FALSE(cache().find(listen()));
  EXPECT_EQ(said_.size(), 1U);
  fs::remove(file);
  keep(cache());
  EXPECT_TRUE(cache().find(listen()));
}

TEST_F(PlanCache, SaysWhyItCannotKeepAndGoesOn) {
  write_file(folder_ / "plans", "a file where the folder should be");
  EXPECT_TRUE(keep(cache()).empty());
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_THAT(said_[0], HasSubstr("the plan is not kept"));
}

TEST_F(PlanCache, RemovesTheOldestEntriesAndNothingElse) {
  fs::create_directories(folder_ / "plans");
  write_file(folder_ / "plans" / "mine.txt", "not an entry");
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1000);
  for (int i = 0; i < 150; ++i)
    for (const std::string ending : {".plan.json", ".profile.json", ".cluster.toml"}) {
      const auto file = folder_ / "plans" / ("old-" + std::to_string(1000 + i) + ending);
      write_file(file, "x");
      fs::last_write_time(file, long_ago + std::chrono::minutes(i));
    }
  write_file(folder_ / "plans" / ".penstock-1-0.tmp", "of a process that was killed");
  fs::last_write_time(folder_ / "plans" / ".penstock-1-0.tmp", long_ago);
  keep(cache());
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_ / "plans"))
    ++files;
  EXPECT_EQ(files, 3 * 100U + 1) << "a hundred entries, and what is none";
  EXPECT_TRUE(fs::exists(folder_ / "plans" / "mine.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "plans" / "old-1000.plan.json"));
  EXPECT_FALSE(fs::exists(folder_ / "plans" / "old-1050.profile.json"));
  EXPECT_TRUE(fs::exists(folder_ / "plans" / "old-1051.plan.json"));
  EXPECT_TRUE(fs::exists(cache().file()));
}

TEST_F(PlanCache, IsWholeHoweverManyWriteItAtOnce) {
  std::vector<std::jthread> writers;
  std::atomic<int> kept{0};
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int n = 0; n < 5; ++n) {
        auto p = two_stages();
        const auto c = cache();
        if (!c.keep(p, some_profile(), planner::flat_cluster(2, 1e9), [](const std::string&) {}).empty()) ++kept;
        EXPECT_TRUE(c.find([](const std::string& line) { ADD_FAILURE() << line; }));
      }
    });
  writers.clear();
  EXPECT_EQ(kept, 20);
  for (const auto& entry : fs::directory_iterator(folder_ / "plans"))
    EXPECT_FALSE(entry.path().filename().string().ends_with(".tmp"));
}

// Variables of this process for as long as it lives.
class variable {
public:
  variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    if (value != nullptr)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  ~variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(PlanCachePlace, IsWhereTheSystemKeepsSuchThings) {
  const variable home("HOME", "/home/somebody");
  {
    const variable cache("XDG_CACHE_HOME", "/var/tmp/caches");
    EXPECT_EQ(read_plan_cache("").folder, "/var/tmp/caches/penstock");
    EXPECT_TRUE(read_plan_cache("refresh").refresh);
    EXPECT_EQ(read_plan_cache("refresh").folder, "/var/tmp/caches/penstock");
  }
  const variable relative("XDG_CACHE_HOME", "caches");
  EXPECT_EQ(read_plan_cache("").folder, "/home/somebody/.cache/penstock");
  const variable homeless("HOME", nullptr);
  EXPECT_TRUE(read_plan_cache("").folder.empty());
  EXPECT_THAT(read_plan_cache("").note, HasSubstr("--plan-cache DIR"));
  EXPECT_EQ(read_plan_cache("off").note, "");
}

TEST(PlanCachePlace, IsWhereAPersonSaysSo) {
  EXPECT_TRUE(read_plan_cache("off").folder.empty());
  EXPECT_EQ(read_plan_cache("plans").folder, "plans");
  EXPECT_FALSE(read_plan_cache("plans").refresh);
  EXPECT_EQ(read_plan_cache("refresh:plans").folder, "plans");
  EXPECT_TRUE(read_plan_cache("refresh:plans").refresh);
  EXPECT_THROW(read_plan_cache("refresh:"), usage_error);
}

} // namespace
} // namespace penstock::apps
