// fork and exec: posix_spawn cannot ask for the signal of a parent's death.
#include "tools/launch/spawn.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "tools/launch/descriptor.hpp"
#include "tools/launch/signal_inbox.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace penstock::tools::launcher {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts)
    result.push_back(const_cast<char*>(text.c_str())); // exec's old signature; it does not write
  result.push_back(nullptr);
  return result;
}

// In the new process, until exec. Everything here is a system call or made before the fork.
[[noreturn]] void become(const spawn_request& request, char* const* arguments, char* const* variables, pid_t parent,
                         const char* name) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1); // it died before the line above
  // A progress bar is drawn from a group in the background, even where the terminal is set to stop such writers.
  if (::isatty(request.output) != 0) std::signal(SIGTTOU, SIG_IGN);
  const int input = request.input >= 0 ? request.input : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool is_wired = ::dup2(input, STDIN_FILENO) >= 0 && ::dup2(request.output, STDOUT_FILENO) >= 0 &&
                        ::dup2(request.errors, STDERR_FILENO) >= 0;
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); // whatever this program itself inherited; older kernels leave that
  for (const int kept : request.inherited)
    ::fcntl(kept, F_SETFD, 0);
  signal_inbox::restore();
  if (is_wired) ::execvpe(arguments[0], arguments, variables);
  ::dprintf(STDERR_FILENO, "penstock launch: cannot start %s: %s\n", name, ::strerrordesc_np(errno));
  ::_exit(126);
}

} // namespace

pipe_ends open_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw error("cannot make a pipe: " + std::string(std::strerror(errno)));
  return {descriptor(ends[0]), descriptor(ends[1])};
}

pid_t spawn(const spawn_request& request) {
  const auto arguments = pointers(request.command);
  const auto variables = pointers(request.variables);
  const auto name = shortened(request.command.front());
  const auto parent = ::getpid();
  const auto child = ::fork();
  if (child < 0) throw error("cannot make a process: " + std::string(std::strerror(errno)));
  if (child == 0) become(request, arguments.data(), variables.data(), parent, name.c_str());
  ::setpgid(child, child); // in both processes, so that whoever comes first finds the group
  return child;
}

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

} // namespace penstock::tools::launcher
