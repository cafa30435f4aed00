// The guard's process: reads numbers, and at the end of the pipe kills those that are left.
#include "tools/launch/guard.hpp"

#include "kernels/check.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <string>
#include <sys/wait.h>

namespace penstock::tools::launcher {

namespace {

// A positive number is a group to watch, its negative one to forget. Nothing but the pipe stays open, so that no reader
// of the launcher's output waits for the guard.
[[noreturn]] void stand_guard(pipe_ends line) {
  line.write.close();
  ::setsid(); // the terminal's signals are not meant for it
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
    std::signal(signal, SIG_IGN);
  ::dup2(line.read.get(), STDIN_FILENO);
  ::close_range(1, ~0U, 0); // older kernels cannot
  std::set<pid_t> groups;
  pid_t number = 0;
  while (true) {
    const auto got = ::read(STDIN_FILENO, &number, sizeof number);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof number) break;
    if (number > 0)
      groups.insert(number);
    else
      groups.erase(-number);
  }
  for (const pid_t group : groups)
    ::kill(-group, SIGKILL);
  ::_exit(0);
}

} // namespace

guard::guard() {
  auto ends = open_pipe();
  process_ = ::fork();
  if (process_ < 0) throw error("cannot make a process: " + std::string(std::strerror(errno)));
  if (process_ == 0) stand_guard(std::move(ends));
  line_ = std::move(ends.write);
}

guard::~guard() {
  ::kill(process_, SIGKILL); // nobody is left to be guarded
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void guard::watch(pid_t group) {
  tell(group);
}

void guard::forget(pid_t group) {
  tell(-group);
}

void guard::tell(pid_t number) {
  // Fewer bytes than a pipe takes at once; a guard that is gone leaves the ranks to the kernel.
  while (::write(line_.get(), &number, sizeof number) < 0 && errno == EINTR) {
  }
}

} // namespace penstock::tools::launcher
