// Signals and endings of one rank.
#include "tools/launch/rank_process.hpp"

#include "tools/launch/remote.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/wait.h>

namespace penstock::tools::launcher {

namespace {

// ssh's own failure. Shells, the one on the other host included, say 128 + n where signal n ended a program.
constexpr int ssh_failed = 255;
constexpr int signal_base = 128;

} // namespace

std::string rank_process::name() const {
  return "rank " + std::to_string(place_.rank) + (place_.is_here() ? "" : " on " + place_.host);
}

std::string rank_process::description() const {
  if (ending_->signal != 0) {
    const char* words = ::sigdescr_np(ending_->signal);
    return "was killed by signal " + std::to_string(ending_->signal) +
           (words == nullptr ? "" : " (" + std::string(words) + ")");
  }
  if (ending_->is_of_follower()) return "ended because another one had failed";
  if (!place_.is_here() && ending_->exit_code == ssh_failed)
    return "is lost: ssh could not connect or lost the connection (exit code 255)";
  return "ended with exit code " + std::to_string(ending_->exit_code);
}

bool rank_process::notice_end(leftover rest) {
  siginfo_t info{};
  // Not reaped at once, so that the group's number stays its own while the group is killed.
  if (ending_ || ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != process_)
    return false;
  ending how;
  if (info.si_code == CLD_EXITED)
    how.exit_code = info.si_status;
  else
    how.signal = info.si_status;
  if (!place_.is_here() && how.exit_code > signal_base && how.exit_code < signal_base + SIGRTMIN)
    how = {0, how.exit_code - signal_base};
  ending_ = how;
  orders_.close();
  if (rest == leftover::kill) {
    kill_here();
    is_gone_ = true;
  }
  ::waitpid(process_, nullptr, 0);
  return true;
}

bool rank_process::is_stopped() const {
  siginfo_t info{};
  return is_running() && place_.is_here() &&
         ::waitid(P_PID, static_cast<id_t>(process_), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == process_;
}

void rank_process::send(int signal) {
  if (place_.is_here()) {
    // Helpers of the rank that know nothing of SIGUSR1 would die of it. The others are for all: a shell that wraps the
    // program would not pass them on.
    ::kill(signal == SIGUSR1 ? process_ : -process_, signal);
    return;
  }
  // The reader on the other side is a shell; what does not fit into the pipe meets a host that is gone.
  const auto line = order_of(signal) + "\n";
  if (orders_.is_open() && ::write(orders_.get(), line.data(), line.size()) < 0 && errno == EPIPE) orders_.close();
  if (signal == SIGKILL) orders_.close();
}

void rank_process::kill_here() {
  if (!is_gone_) ::kill(-process_, SIGKILL);
}

bool rank_process::is_gone() {
  if (!ending_ || is_gone_) return is_gone_;
  while (::waitpid(-process_, nullptr, WNOHANG) > 0) { // orphans of its group, see adopt_orphans()
  }
  is_gone_ = ::kill(-process_, 0) != 0;
  return is_gone_;
}

} // namespace penstock::tools::launcher
