// signalfd, and what there was before.
#include "tools/launch/signal_inbox.hpp"

#include "kernels/check.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/signalfd.h>

namespace penstock::tools::launcher {

namespace {

sigset_t mask_before;
struct sigaction pipe_before;
struct sigaction child_before;

void set(int signal, void (*handler)(int), struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, &before);
}

} // namespace

signal_inbox::signal_inbox() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD})
    sigaddset(&wanted, signal);
  inbox_ = descriptor(::signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!inbox_.is_open()) throw error("cannot receive signals: " + std::string(std::strerror(errno)));
  set(SIGPIPE, SIG_IGN, pipe_before);
  set(SIGCHLD, SIG_DFL, child_before); // ignored, the ranks' exit codes would be lost
  ::sigprocmask(SIG_BLOCK, &wanted, &mask_before);
}

signal_inbox::~signal_inbox() {
  restore();
}

std::vector<int> signal_inbox::take() {
  std::vector<int> result;
  signalfd_siginfo info{};
  while (::read(inbox_.get(), &info, sizeof info) == sizeof info)
    result.push_back(static_cast<int>(info.ssi_signo));
  return result;
}

void signal_inbox::restore() {
  ::sigaction(SIGPIPE, &pipe_before, nullptr);
  ::sigaction(SIGCHLD, &child_before, nullptr);
  ::sigprocmask(SIG_SETMASK, &mask_before, nullptr);
}

} // namespace penstock::tools::launcher
