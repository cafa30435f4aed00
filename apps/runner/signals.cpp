// Signal handlers: they touch lock-free atomics only.
#include "apps/runner/signals.hpp"

#include "apps/runner/exit_codes.hpp"
#include "kernels/check.hpp"

#include <atomic>
#include <csignal>
#include <unistd.h>

namespace penstock::apps {

namespace {

std::atomic<actors::run_control*> current{nullptr};
std::atomic<int> ending{0};
static_assert(std::atomic<actors::run_control*>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

int code_of(int signal) {
  return signal == SIGINT ? interrupted : terminated;
}

void on_end(int signal) {
  int none = 0;
  if (!ending.compare_exchange_strong(none, signal)) ::_exit(code_of(signal));
  if (auto* control = current.load()) control->stop = true;
}

void on_checkpoint(int) {
  if (auto* control = current.load()) control->checkpoint = true;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

} // namespace

signal_guard::signal_guard(actors::run_control& control) {
  check(current.exchange(&control) == nullptr, "two runs cannot share the process's signals");
  ending = 0;
  handle(SIGINT, on_end);
  handle(SIGTERM, on_end);
  handle(SIGUSR1, on_checkpoint);
  handle(SIGXFSZ, SIG_IGN); // a file-size limit shows as a failed write, which names the file
}

signal_guard::~signal_guard() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1})
    handle(signal, SIG_DFL);
  current = nullptr;
}

int signal_guard::exit_code() {
  return ending == 0 ? 0 : code_of(ending);
}

} // namespace penstock::apps
