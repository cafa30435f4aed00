// Runs a program as a person would and never waits without a deadline: for tests of the binaries end to end.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::test {

struct process_options {
  std::filesystem::path folder;                 ///< working directory; empty: the test's own
  std::map<std::string, std::string> variables; ///< added to the environment
  bool terminal = false; ///< stdout is a pseudo-terminal (80 columns), so a program draws as for a person
};

struct process_result {
  int exit_code = -1;                           ///< -1 when a signal ended it or the deadline passed
  int ended_by = 0;                             ///< the signal that ended it; SIGKILL when the deadline passed
  bool timed_out = false;                       ///< the deadline passed and the process was killed
  std::string output;                           ///< stdout
  std::string errors;                           ///< stderr
  std::vector<std::string> error_lines() const; ///< stderr without empty lines
};

/// A running child in a process group of its own. Destroyed while it runs, it kills the group and reaps the child.
/// Used by one thread at a time.
class process {
public:
  using duration = std::chrono::milliseconds;
  using predicate = std::function<bool()>;

  /// Throws std::runtime_error when the program cannot be started.
  explicit process(std::vector<std::string> command, const process_options& options = {});
  ~process();
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  int id() const; ///< process id
  void send(int signal);
  bool running(); ///< false once it has ended and was reaped

  /// Waits until the condition holds; false when it does not within the deadline, or the process ended before.
  bool wait_until(const predicate& condition, duration deadline);
  bool wait_for_output(std::string_view text, duration deadline); ///< in stdout or stderr
  bool wait_for_text(const std::filesystem::path& file, std::string_view text, duration deadline);

  /// Waits for the end; kills the process when the deadline passes.
  process_result finish(duration deadline);

private:
  struct state;
  std::unique_ptr<state> self_;
};

/// Starts, waits, reports.
process_result run_process(std::vector<std::string> command, process::duration deadline,
                           const process_options& options = {});

/// The whole file, or "" when there is none.
std::string read_text(const std::filesystem::path& file);

std::vector<std::string> lines_of(std::string_view text); ///< without empty lines

using testing_support::temporary_folder;

} // namespace penstock::test
