// What the ranks of one job are given to find each other: variables, a secret, a socket.
#pragma once

#include "tools/launch/descriptor.hpp"
#include "tools/launch/options.hpp"
#include "tools/launch/rank_process.hpp"
#include "tools/launch/spawn.hpp"

#include <string>
#include <vector>

namespace penstock::tools::launcher {

/// For one start of a job; the next has another secret, unless the user gave it, and, unless the user chose it, another
/// port.
class starter {
public:
  /// Throws penstock::error: a port in use.
  starter(const launch_options& options, const std::vector<place>& places, int restarts);

  /// The handlers get the rank's lines. Throws penstock::error. Rank 0 draws on the terminal itself where there is one.
  rank_process start(const place& where, line_reader::line_handler on_output,
                     line_reader::line_handler on_errors) const;

private:
  void prepare_here(spawn_request& request, const place& where) const;
  /// Returns where to send signals.
  pipe_ends prepare_there(spawn_request& request, const place& where) const;
  std::vector<std::string> variables_of(const place& where) const; ///< ours only

  const launch_options& options_;
  int ranks_;
  int restarts_;
  bool has_remote_;
  std::string secret_;
  descriptor secret_file_; ///< in memory; ranks of this machine open it by number
  descriptor listener_;    ///< jobs of this machine alone
  std::string master_;
};

} // namespace penstock::tools::launcher
