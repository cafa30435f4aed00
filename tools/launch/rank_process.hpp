// One rank of a job, here or by way of ssh.
#pragma once

#include "tools/launch/descriptor.hpp"
#include "tools/launch/output.hpp"
#include "tools/launch/placement.hpp"

#include <csignal>
#include <optional>
#include <string>
#include <sys/types.h>

namespace penstock::tools::launcher {

/// How a rank ended. One of the two is not 0 when it failed.
/// What a rank that ends because another one has failed is asked to exit with (PENSTOCK_FOLLOWER_CODE): whoever comes
/// to its end first need not be the cause. Outside the launcher nobody sees it.
inline constexpr int follower_code = 117;

struct ending {
  int exit_code = 0;
  int signal = 0;
  bool is_by_signal() const { return signal != 0 || exit_code == 128 + SIGINT || exit_code == 128 + SIGTERM; }
  bool is_of_follower() const { return signal == 0 && exit_code == follower_code; }
  bool is_failure() const { return exit_code != 0 || signal != 0; }
  int code() const { return signal != 0 ? 128 + signal : exit_code; } ///< as a shell has it
};

class rank_process {
public:
  rank_process(place where, pid_t process, descriptor orders)
      : place_(std::move(where)), process_(process), orders_(std::move(orders)) {}

  const place& where() const { return place_; }
  std::string name() const; ///< "rank 2", "rank 2 on HOST"
  pid_t group() const { return process_; }

  bool is_running() const { return !ending_; }
  const std::optional<ending>& how_it_ended() const { return ending_; }
  /// "was killed by signal 9 (Killed)"; only once it has ended.
  std::string description() const;

  enum class leftover { kill, spare };
  /// Looks whether it has ended, without waiting. True once. What it has started and left behind here is killed with
  /// that, or spared for the time being.
  bool notice_end(leftover rest);
  /// It runs, but something has stopped it (SIGSTOP). Always false for a rank on another host.
  bool is_stopped() const;
  /// Reaches the rank and what it started, on its host. Only while it runs.
  void send(int signal);
  /// Kills the processes here, ssh's included.
  void kill_here();
  /// Nothing is left here of what it started. To be asked often once it has ended: the number of a group that has been
  /// gone for long may be somebody else's.
  bool is_gone();

  line_reader output;
  line_reader errors;

private:
  place place_;
  pid_t process_;
  descriptor orders_; ///< to a rank on another host
  std::optional<ending> ending_;
  bool is_gone_ = false;
};

} // namespace penstock::tools::launcher
