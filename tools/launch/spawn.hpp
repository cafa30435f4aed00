// Starts one process of a job.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace penstock::tools::launcher {

struct spawn_request {
  std::vector<std::string> command;   ///< searched on the PATH
  std::vector<std::string> variables; ///< the whole environment, "NAME=VALUE"
  int input = -1;                     ///< -1: /dev/null
  int output = -1;
  int errors = -1;
  std::vector<int> inherited; ///< the descriptors it gets besides; no others
};

/// The process leads a group of its own, has default signal handling and the signal mask this program was started with
/// (see signal_inbox), and is killed with the calling thread, whatever ends that. Throws penstock::error.
pid_t spawn(const spawn_request& request);

/// From now on, what a rank leaves behind becomes a child of this process: its end is noticed, and no zombie stays
/// where nobody else would reap it.
void adopt_orphans();

} // namespace penstock::tools::launcher
