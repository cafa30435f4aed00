// Shells in the place of an app.
#include "tests/apps/launch_programs.hpp"

#include <algorithm>
#include <filesystem>

namespace penstock::test {

std::vector<std::string> launch(std::vector<std::string> options, const std::string& script) {
  options.insert(options.begin(), "launch");
  options.insert(options.end(), {"--", "sh", "-c", script});
  return program("penstock", options);
}

process_result launched(std::vector<std::string> options, const std::string& script, const process_options& how) {
  return run_process(launch(std::move(options), script), patience, how);
}

std::vector<std::string> running_with(const std::string& text) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    auto line = read_text(entry.path() / "cmdline");
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (line.find(text) != std::string::npos) found.push_back(line);
  }
  return found;
}

bool come_to_nothing(const std::string& text) {
  process clock({"sleep", "30"}); // something to wait with
  return clock.wait_until([&] { return running_with(text).empty(); }, std::chrono::seconds(20));
}

std::string mark_of(const temporary_folder& folder) {
  return folder.path().filename();
}

bool both_have(process& job, const temporary_folder& folder, const std::string& text) {
  return job.wait_for_text(folder / "r0", text, patience) && job.wait_for_text(folder / "r1", text, patience);
}

bool both_are_there(process& job, const temporary_folder& folder) {
  return job.wait_until([&] { return exists(folder / "r0") && exists(folder / "r1"); }, patience);
}

} // namespace penstock::test
