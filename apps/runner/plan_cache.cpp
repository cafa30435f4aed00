// Entries by the fingerprint of their key; a fingerprint over the entry tells whether it is whole.
#include "apps/runner/plan_cache.hpp"

#include "apps/runner/text_file.hpp"
#include "kernels/atomic_file.hpp"
#include "kernels/check.hpp"
#include "planner/profile/wording.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <map>

namespace penstock::apps {

namespace {

namespace fs = std::filesystem;

constexpr const char* key_name = "cache_key";
constexpr const char* time_name = "measured_at";
constexpr const char* mark_name = "cache_mark";
constexpr const char* plan_ending = ".plan.json";
constexpr const char* profile_ending = ".profile.json";
constexpr const char* cluster_ending = ".cluster.toml";

std::string now_text() {
  const auto now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

std::string value_of(const planner::plan& p, const char* name) {
  const auto found = p.inputs.find(name);
  return found != p.inputs.end() ? found->second : "";
}

std::string mark_of(planner::plan p) {
  p.inputs.erase(mark_name);
  return planner::fingerprint(planner::to_json(p));
}

fs::path absolute_folder_of(const char* variable) {
  const char* value = std::getenv(variable);
  const fs::path folder = value != nullptr ? value : "";
  return folder.is_absolute() ? folder : fs::path();
}

void write_whole(const fs::path& file, const std::string& text) {
  atomic_file out(file);
  out.write(text);
  out.commit();
}

} // namespace

plan_cache_place read_plan_cache(const std::string& option) {
  constexpr std::string_view refresh = "refresh";
  plan_cache_place place;
  if (option == "off") return place;
  place.refresh = option == refresh || option.starts_with("refresh:");
  const auto folder = !place.refresh ? option : option.size() > refresh.size() ? option.substr(refresh.size() + 1) : "";
  if (!folder.empty()) {
    place.folder = folder;
    return place;
  }
  if (option == "refresh:") throw usage_error("--plan-cache: found 'refresh:', wanted a folder behind it");
  if (const auto cache = absolute_folder_of("XDG_CACHE_HOME"); !cache.empty())
    place.folder = cache / "penstock";
  else if (const auto home = absolute_folder_of("HOME"); !home.empty())
    place.folder = home / ".cache" / "penstock";
  else
    place.note = "the plan is not kept: neither XDG_CACHE_HOME nor HOME names a folder; --plan-cache DIR does";
  return place;
}

plan_cache::plan_cache(plan_cache_place place, const std::string& name,
                       const std::vector<std::pair<std::string, std::string>>& key)
    : place_(std::move(place)) {
  std::string text;
  for (const auto& [what, value] : key)
    text += what + "=" + std::to_string(value.size()) + ":" + value + "\n";
  key_ = planner::fingerprint(text) + planner::fingerprint("again " + text);
  for (const char c : name)
    stem_ += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  stem_ += "-" + key_.substr(0, 16);
}

fs::path plan_cache::file() const {
  return place_.folder.empty() ? fs::path() : place_.folder / (stem_ + plan_ending);
}

std::optional<planner::plan> plan_cache::find(const say_line& say) const {
  std::error_code ignored;
  if (place_.folder.empty() || place_.refresh || !fs::exists(file(), ignored)) return std::nullopt;
  try {
    if (!fs::is_regular_file(file(), ignored)) throw error(file().string() + ": it is no file");
    auto p = planner::plan_from_json(read_text_file(file().string()), file().string());
    planner::check_plan(p);
    if (value_of(p, key_name) != key_ || value_of(p, mark_name) != mark_of(p))
      throw error(file().string() + ": it was changed, or is another's");
    return p;
  } catch (const std::exception& fault) {
    say(std::string("plan cache: an entry is not used and made anew: ") + fault.what());
    return std::nullopt;
  }
}

fs::path plan_cache::keep(planner::plan& p, const planner::profile& measured, const planner::cluster& machines,
                          const say_line& say) const {
  p.inputs[time_name] = now_text();
  if (place_.folder.empty()) return {};
  p.inputs[key_name] = key_;
  p.inputs[mark_name] = mark_of(p);
  try {
    std::error_code fault;
    fs::create_directories(place_.folder, fault);
    if (fault) throw error("cannot make the folder " + place_.folder.string() + ": " + fault.message());
    write_whole(place_.folder / (stem_ + profile_ending), planner::to_json(measured));
    write_whole(place_.folder / (stem_ + cluster_ending), planner::to_toml(machines));
    write_whole(file(), planner::to_json(p));
  } catch (const std::exception& fault) {
    say(std::string("the plan is not kept: ") + fault.what());
    return {};
  }
  try {
    remove_old();
  } catch (const fs::filesystem_error&) { // the next one tries again
  }
  return file();
}

// Others may do the same at this moment; a file that is gone already is as good as removed.
void plan_cache::remove_old() const {
  constexpr std::size_t most_entries = 100;
  constexpr std::uintmax_t most_bytes = 64'000'000;
  struct entry {
    fs::file_time_type written;
    std::uintmax_t bytes = 0;
    std::vector<fs::path> files;
  };
  std::map<std::string, entry> entries;
  std::error_code ignored;
  for (const auto& found : fs::directory_iterator(place_.folder, ignored)) {
    const auto name = found.path().filename().string();
    if (name.starts_with(".penstock-") && name.ends_with(".tmp")) { // of a process that was killed
      const auto age = fs::file_time_type::clock::now() - found.last_write_time(ignored);
      if (age > std::chrono::hours(24)) fs::remove(found.path(), ignored);
    }
    for (const std::string ending : {plan_ending, profile_ending, cluster_ending}) {
      if (!name.ends_with(ending)) continue;
      auto& e = entries[name.substr(0, name.size() - ending.size())];
      const auto written = found.last_write_time(ignored);
      const auto bytes = found.file_size(ignored);
      e.written = std::max(e.files.empty() ? written : e.written, written);
      e.bytes += bytes != static_cast<std::uintmax_t>(-1) ? bytes : 0;
      e.files.push_back(found.path());
    }
  }
  entries.erase(stem_);
  std::vector<const entry*> by_age;
  std::uintmax_t bytes = 0;
  for (const auto& [_, e] : entries) {
    by_age.push_back(&e);
    bytes += e.bytes;
  }
  std::sort(by_age.begin(), by_age.end(), [](const auto* a, const auto* b) { return a->written < b->written; });
  auto left = by_age.size() + 1;
  for (const auto* e : by_age) {
    if (left <= most_entries && bytes <= most_bytes) return;
    for (const auto& file : e->files)
      fs::remove(file, ignored);
    --left;
    bytes -= e->bytes;
  }
}

std::string measured_at(const planner::plan& p) {
  return value_of(p, time_name);
}

} // namespace penstock::apps
