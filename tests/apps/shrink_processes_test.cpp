// `--on-loss shrink` with real processes that are killed at chosen moments: the others go on, and every minibatch is
// trained.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int steps = 1600; // some seconds, so that there is time to kill

bool has_entry(const std::string& entries, const std::string& entry) {
  return ('\0' + entries).find('\0' + entry + '\0') != std::string::npos;
}

class ShrinkProcesses : public ::testing::Test {
protected:
  std::vector<std::string> lenet(const std::vector<std::string>& more) const {
    auto all = program("lenet", {"--synthetic-samples", "64", "--batch", "8", "--epochs", std::to_string(steps / 8),
                                 "--eval-every", "-1", "--checkpoint", folder / "c", "--checkpoint-every", "100",
                                 "--metrics", folder / "m.jsonl"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> launched(int processes, const std::vector<std::string>& more) const {
    auto all = program("penstock", {"launch", "-np", std::to_string(processes), "--on-loss", "shrink", "--"});
    const auto command = lenet(more);
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }

  /// The process of a rank in a job of so many, once it is there.
  int process_of(int rank, int processes) {
    std::optional<int> found;
    job->wait_until(
        [&] {
          found = find(rank, processes);
          return found.has_value();
        },
        patience);
    EXPECT_TRUE(found) << "rank " << rank << " of " << processes;
    return found.value_or(0);
  }
  bool is_anyone_left() const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc"))
      if (read_text(entry.path() / "cmdline").find(folder.path().string()) != std::string::npos) return true;
    return false;
  }
  void kill_rank(int rank, int processes) {
    if (const int id = process_of(rank, processes); id > 0) ::kill(id, SIGKILL);
  }
  bool wait_for_step(int step) {
    return job->wait_for_text(folder / "m.jsonl", "\"step\":" + std::to_string(step) + ",", patience);
  }
  /// Waits until the process has that file open.
  bool has_opened(int id, const std::string& file) {
    return job->wait_until(
        [&] {
          std::error_code gone;
          for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(id) + "/fd", gone))
            if (std::filesystem::read_symlink(entry.path(), gone) == file) return true;
          return false;
        },
        patience);
  }
  bool wait_for_output(const std::string& text) { return job->wait_for_output(text, patience); }

  json finished() {
    const auto result = job->finish(patience);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    errors = result.errors;
    output = result.output;
    std::set<int> trained;
    json last;
    for (const auto& line : lines_of(read_text(folder / "m.jsonl"))) {
      last = json::parse(line);
      if (last.at("event") == "step") trained.insert(last.at("step").get<int>());
    }
    EXPECT_EQ(trained.size(), static_cast<std::size_t>(steps));
    EXPECT_EQ(last.at("event"), "summary");
    EXPECT_FALSE(is_anyone_left());
    return last;
  }

  temporary_folder folder;
  std::optional<process> job;
  std::string errors;
  std::string output;

private:
  std::optional<int> find(int rank, int processes) const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const auto command = read_text(entry.path() / "cmdline");
      if (!command.starts_with(PROGRAMS "/lenet") || command.find(folder.path().string()) == std::string::npos)
        continue;
      const auto variables = read_text(entry.path() / "environ");
      if (has_entry(variables, "PENSTOCK_RANK=" + std::to_string(rank)) &&
          has_entry(variables, "PENSTOCK_WORLD_SIZE=" + std::to_string(processes)))
        return std::stoi(entry.path().filename().string());
    }
    return {};
  }
};

// A plan by hand for ranks 0 and 1, whatever the job's size.
std::string plan_of_two_ranks() {
  return json{{"format", "penstock-plan"},
              {"version", 1},
              {"stages", json::array({{{"first_layer", "conv1"}, {"last_layer", "pool1"}, {"devices", {"cpu:0"}}},
                                      {{"first_layer", "conv2"}, {"last_layer", "fc3"}, {"devices", {"cpu:1"}}}})}}
      .dump();
}

TEST_F(ShrinkProcesses, TwoRanksLostAtOnceAreBothDoneWithout) {
  job.emplace(launched(4, {"--threads", "1", "--replicas", "3,1"}));
  ASSERT_TRUE(wait_for_step(150));
  const int one = process_of(1, 4);
  const int three = process_of(3, 4);
  ::kill(one, SIGKILL);
  ::kill(three, SIGKILL);
  EXPECT_THAT(finished().at("replicas"), ElementsAre(2));
  EXPECT_THAT(errors, HasSubstr("going on with 2 processes"));
}

TEST_F(ShrinkProcesses, ARankLostWhileTheOthersStartAnewIsDoneWithout) {
  job.emplace(launched(4, {"--threads", "1", "--schedule", "data-parallel", "--replicas", "4"}));
  ASSERT_TRUE(wait_for_step(150));
  const int three = process_of(3, 4);
  ::kill(three, SIGSTOP); // so that it does not start anew, and still is no loss of its own
  kill_rank(1, 4);
  ASSERT_TRUE(wait_for_output("going on with 3 processes"));
  ::kill(three, SIGKILL);
  EXPECT_THAT(finished().at("replicas"), ElementsAre(2));
  EXPECT_THAT(errors, HasSubstr("rank 2 never came: 2 of 3 ranks were there"));
  EXPECT_THAT(errors, HasSubstr("going on with 2 processes"));
}

TEST_F(ShrinkProcesses, AllButRankZeroMayBeLostOneAfterTheOther) {
  job.emplace(launched(3, {"--threads", "1", "--replicas", "1,1,1"}));
  ASSERT_TRUE(wait_for_step(150));
  kill_rank(2, 3);
  ASSERT_TRUE(wait_for_output("lost rank 2: going on without"));
  kill_rank(1, 2);
  EXPECT_THAT(finished().at("replicas"), ElementsAre(1));
  EXPECT_THAT(output, HasSubstr("lost rank 2, then rank 1: going on without"));
}

TEST_F(ShrinkProcesses, ALossWhileAPlanIsSoughtIsDoneWithout) {
  job.emplace(launched(3, {"--plan", "auto"}));
  ASSERT_TRUE(wait_for_output("profiling "));
  kill_rank(2, 3);
  finished();
  EXPECT_THAT(errors, HasSubstr("going on with 2 processes"));
  EXPECT_THAT(output, HasSubstr("lost rank 2: planned anew"));
}

// Rank 0 waits for its plan's file and for nothing else, so its process is replaced while it does.
TEST_F(ShrinkProcesses, ALossWhileRankZeroHangsBeforeTheFirstMinibatchIsDoneWithout) {
  const std::string file = folder / "plan";
  ASSERT_EQ(::mkfifo(file.c_str(), S_IRUSR | S_IWUSR), 0);
  const int writer = ::open(file.c_str(), O_RDWR | O_CLOEXEC); // does not wait for a reader
  job.emplace(launched(3, {"--plan", file}));
  EXPECT_TRUE(has_opened(process_of(0, 3), file)); // and waits for what we write
  kill_rank(2, 3);
  EXPECT_TRUE(has_opened(process_of(0, 2), file));
  const auto plan = plan_of_two_ranks();
  EXPECT_EQ(::write(writer, plan.data(), plan.size()), std::ssize(plan));
  ::close(writer);
  EXPECT_THAT(finished().at("replicas"), ElementsAre(1, 1));
}

TEST_F(ShrinkProcesses, AnIdleRankIsDoneWithoutOrTakesTheLostOnesPlace) {
  std::ofstream(folder / "plan") << plan_of_two_ranks();
  const auto undisturbed = run_process(lenet({"--plan", folder / "plan"}), patience);
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.errors;
  const auto wanted = json::parse(lines_of(read_text(folder / "m.jsonl")).back());
  std::filesystem::remove_all(folder / "c");
  std::filesystem::remove(folder / "m.jsonl");

  job.emplace(launched(4, {"--plan", folder / "plan"}));
  ASSERT_TRUE(wait_for_output("the plan has nothing to do for rank 3"));
  ASSERT_TRUE(wait_for_step(150));
  kill_rank(3, 4);
  ASSERT_TRUE(wait_for_output("lost rank 3: going on without"));
  kill_rank(1, 3); // and rank 2, which is still idle, becomes the new rank 1
  const auto summary = finished();
  EXPECT_THAT(summary.at("replicas"), ElementsAre(1, 1));
  EXPECT_EQ(summary.at("weights_sha256"), wanted.at("weights_sha256"));
  EXPECT_EQ(summary.at("state_sha256"), wanted.at("state_sha256"));
}

TEST_F(ShrinkProcesses, ASignalThatComesWhileTheyStartAnewEndsAll) {
  job.emplace(launched(3, {"--threads", "1", "--replicas", "2,1"}));
  ASSERT_TRUE(wait_for_step(150));
  kill_rank(1, 3);
  ASSERT_TRUE(wait_for_output("going on with 2 processes"));
  job->send(SIGTERM);
  EXPECT_EQ(job->finish(patience).exit_code, 143);
  EXPECT_FALSE(is_anyone_left());
}

TEST_F(ShrinkProcesses, NoDescriptorOutlivesTheStartAnew) {
  const auto descriptors_of = [](int id) {
    return std::distance(std::filesystem::directory_iterator("/proc/" + std::to_string(id) + "/fd"), {});
  };
  job.emplace(launched(2, {"--threads", "1", "--replicas", "1,1"}));
  ASSERT_TRUE(wait_for_step(150));
  const auto fresh = descriptors_of(process_of(0, 2));
  EXPECT_EQ(job->finish(patience).exit_code, 0);
  std::filesystem::remove_all(folder / "c");
  std::filesystem::remove(folder / "m.jsonl");

  job.emplace(launched(4, {"--threads", "1", "--replicas", "1,1,1,1"}));
  ASSERT_TRUE(wait_for_step(150));
  kill_rank(3, 4);
  ASSERT_TRUE(wait_for_output("lost rank 3: going on without"));
  kill_rank(2, 3);
  ASSERT_TRUE(wait_for_output("lost rank 3, then rank 2: going on without"));
  const int zero = process_of(0, 2);
  ASSERT_TRUE(wait_for_step(steps / 2));
  // A checkpoint that is being written has files open for a moment, what leaks stays.
  EXPECT_TRUE(job->wait_until([&] { return descriptors_of(zero) <= fresh; }, patience));
  finished();
}

} // namespace
} // namespace penstock::test
