// One start of a job: all ranks from their beginning to their end.
#pragma once

#include "tools/launch/guard.hpp"
#include "tools/launch/last_words.hpp"
#include "tools/launch/options.hpp"
#include "tools/launch/output.hpp"
#include "tools/launch/rank_process.hpp"
#include "tools/launch/signal_inbox.hpp"

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace penstock::tools::launcher {

struct job_result {
  int exit_code = 0;
  std::string cause;          ///< one line about the first rank that failed; empty when none did
  bool may_try_again = false; ///< neither the user's wish nor the user's mistake
  bool is_by_user = false;    ///< a signal to the launcher ended it
};

/// Used once, by one thread. However it ends, no rank of it is left on this machine.
class job {
public:
  using clock = std::chrono::steady_clock;

  /// All must outlive it.
  job(const launch_options& options, const std::vector<place>& places, signal_inbox& signals, outlet& out);
  ~job();
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  /// Returns when all ranks have ended. Throws penstock::error when one cannot be started.
  job_result run(int restarts);

private:
  // How much is done to end a job that must end; each step has a deadline.
  enum class force { none, stopping, patience, asked, killed, killed_here, given_up };

  void start(int restarts);
  void wait_for_something();
  void take_signals();
  void notice_ends();
  void judge(rank_process& rank);
  void give_the_others_patience();
  void kill_stopped();
  bool are_only_stopped_left() const;
  void push();
  void enter(force next, clock::duration limit);
  bool is_over() const;
  bool is_anyone_running() const;
  std::size_t left(); ///< ranks that run or have left something behind here
  job_result finish();

  bool is_users_doing(const ending& how) const;
  bool can_go_on_without(const rank_process& rank) const;
  void send_to_all(int signal);
  void print(int to, std::size_t rank, const std::string& line);
  void say(const std::string& line);

  const launch_options& options_;
  const std::vector<place>& places_;
  signal_inbox& signals_;
  outlet& out_;
  guard guard_;
  std::vector<rank_process> ranks_;
  std::set<pid_t> watched_; ///< by the guard
  bool is_anything_left_ = true;
  last_words errors_;
  force force_ = force::none;
  clock::time_point deadline_ = clock::time_point::max();
  std::optional<std::size_t> first_failed_;
  std::optional<std::size_t> first_follower_; ///< of a failure that may be yet to be seen
  bool is_done_ = false;                      ///< rank 0 of a job that may shrink has ended in order
  std::optional<clock::time_point> only_stopped_since_;
  int ended_by_user_ = 0; ///< the signal
  clock::time_point user_spoke_;
};

} // namespace penstock::tools::launcher
