// What `penstock launch` is asked to do.
#pragma once

#include "tools/launch/placement.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace penstock::tools::launcher {

enum class on_loss { end, shrink };

struct launch_options {
  int ranks = 0;
  std::vector<host_slots> hosts; ///< empty: this machine
  std::vector<std::string> ssh;  ///< words before the host's name
  int restarts = 0;
  on_loss when_lost = on_loss::end;
  std::chrono::milliseconds grace{};      ///< after a failure
  std::chrono::milliseconds stop_grace{}; ///< after a signal to the launcher
  std::string secret;                     ///< the job's; "": each start makes one
  int port = 0;                           ///< 0: a free one
  bool is_tagged = true;
  std::vector<std::string> command;
};

/// Nothing when help was asked for, which is then printed. Throws usage_error.
std::optional<launch_options> read_options(std::span<const std::string> arguments);

/// Throws usage_error when the program that is to run on this machine is not there or may not be run.
void check_program(const std::string& program);

} // namespace penstock::tools::launcher
