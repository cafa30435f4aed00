// Signal handlers: they touch lock-free atomics only.
#include "apps/runner/signals.hpp"

#include "apps/runner/exit_codes.hpp"
#include "kernels/check.hpp"

#include <atomic>
#include <csignal>
#include <pthread.h>
#include <unistd.h>

namespace penstock::apps {

namespace {

std::atomic<actors::run_control*> current{nullptr};
std::atomic<int> ending{0};
std::atomic<bool> held{false};
std::atomic<pthread_t> holder{}; // when held
static_assert(std::atomic<actors::run_control*>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free && std::atomic<pthread_t>::is_always_lock_free);

int code_of(int signal) {
  return signal == SIGINT ? interrupted : terminated;
}

// Only the thread that calls exec takes what waits for it along, so the others pass on what they get.
bool passes_on(int signal) {
  return held && ::pthread_kill(holder, signal) == 0;
}

void on_end(int signal) {
  int none = 0;
  if (!ending.compare_exchange_strong(none, signal)) ::_exit(code_of(signal));
  if (passes_on(signal)) return;
  if (auto* control = current.load()) control->stop = true;
}

void on_checkpoint(int signal) {
  if (passes_on(signal)) return;
  if (auto* control = current.load()) control->checkpoint = true;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

sigset_t handled() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1})
    sigaddset(&set, signal);
  return set;
}

void let_wait(int how) {
  const auto set = handled();
  ::pthread_sigmask(how, &set, nullptr);
}

} // namespace

signal_guard::signal_guard(actors::run_control& control) {
  check(current.exchange(&control) == nullptr, "two runs cannot share the process's signals");
  ending = 0;
  handle(SIGINT, on_end);
  handle(SIGTERM, on_end);
  handle(SIGUSR1, on_checkpoint);
  handle(SIGXFSZ, SIG_IGN); // a file-size limit shows as a failed write, which names the file
  let_wait(SIG_UNBLOCK);    // the program that this one replaced may have left some waiting
}

signal_guard::~signal_guard() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1})
    handle(signal, SIG_DFL);
  current = nullptr;
}

int signal_guard::exit_code() {
  return ending == 0 ? 0 : code_of(ending);
}

held_signals::held_signals() {
  let_wait(SIG_BLOCK);
  holder = ::pthread_self();
  held = true;
}

held_signals::~held_signals() {
  held = false;
  let_wait(SIG_UNBLOCK);
}

} // namespace penstock::apps
