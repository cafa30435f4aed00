// Signal handlers: they touch lock-free atomics, write(2) and unlink(2) only.
#include "apps/runner/signals.hpp"

#include "apps/runner/exit_codes.hpp"
#include "kernels/atomic_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace penstock::apps {

namespace {

using actors::run_part;

constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t one_request_ns = 1000 * ms; ///< within it the same signal is the same request
constexpr std::int64_t to_leave_ns = 800 * ms;     ///< to end by itself where there is nothing to lose

std::atomic<actors::run_control*> current{nullptr};
std::atomic<int> ending{0};
std::atomic<std::int64_t> since{0}; // when `ending` came
std::atomic<bool> was_told{false};  // by another rank
std::atomic<bool> quiet{false};
std::atomic<bool> held{false};
std::atomic<pthread_t> holder{}; // when held
std::atomic<int> waker{-1};
std::atomic<pid_t> launcher{0}; // passes on what it gets, once
static_assert(std::atomic<actors::run_control*>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free && std::atomic<pthread_t>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);
std::array<char, 64> line_start{}; // made before there are handlers

int code_of(int signal) {
  return signal == SIGINT ? interrupted : terminated;
}

std::int64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 * ms + t.tv_nsec;
}

// Only the thread that calls exec takes what waits for it along, so the others pass on what they get.
bool passes_on(int signal) {
  return held && ::pthread_kill(holder, signal) == 0;
}

const char* answer_of(const actors::run_control& control) {
  const bool checkpoints = control.has_folder;
  switch (control.part) {
  case run_part::nothing_to_lose:
    return "ending; there is nothing to save\n";
  case run_part::training:
    return checkpoints ? "finishing the minibatches in flight, then a checkpoint; again to end now\n"
                       : "finishing the minibatches in flight, no checkpoint folder was given; again to end now\n";
  case run_part::evaluating:
    return checkpoints ? "giving up the evaluation, then a checkpoint; again to end now\n"
                       : "giving up the evaluation; again to end now\n";
  case run_part::saving:
    break;
  }
  return "finishing what is being saved; again to end now\n";
}

void answer(int signal, const actors::run_control& control) {
  std::array<char, 256> line{};
  std::size_t size = 0;
  for (const char* text :
       {static_cast<const char*>(line_start.data()), signal == SIGINT ? "SIGINT: " : "SIGTERM: ", answer_of(control)}) {
    const auto more = std::min(std::strlen(text), line.size() - size);
    std::memcpy(line.data() + size, text, more);
    size += more;
  }
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), size); // nobody to tell
}

// What the first one starts, wherever it comes from.
void begin_end(int signal) {
  since = now_ns();
  auto* control = current.load();
  if (control == nullptr) return;
  if (!quiet) answer(signal, *control);
  control->stop = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(waker, &one, sizeof one);
}

bool is_another_request(int signal, const siginfo_t* info) {
  if (signal != ending) return true;
  const bool is_passed_on = info->si_code == SI_USER && launcher != 0 && info->si_pid == launcher;
  return !is_passed_on && since != 0 && now_ns() - since > one_request_ns;
}

void on_end(int signal, siginfo_t* info, void*) {
  const int before = errno;
  int none = 0;
  if (ending.compare_exchange_strong(none, signal)) {
    if (!passes_on(signal)) begin_end(signal);
  } else if (is_another_request(signal, info)) {
    remove_unfinished_files();
    ::_exit(code_of(signal));
  }
  errno = before;
}

void on_checkpoint(int signal, siginfo_t*, void*) {
  const int before = errno;
  if (!passes_on(signal))
    if (auto* control = current.load()) control->checkpoint = true;
  errno = before;
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

void forget(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
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

// A bar may be drawn where the line goes.
void keep_line_start(std::string_view program) {
  std::string text = ::isatty(STDERR_FILENO) == 1 ? "\r\x1b[K" : "";
  text += std::string(program.substr(0, 40)) + ": ";
  line_start.fill(0);
  std::copy(text.begin(), text.end(), line_start.begin());
}

pid_t launcher_process() {
  const char* text = std::getenv("PENSTOCK_LAUNCHER");
  return text == nullptr ? 0 : static_cast<pid_t>(std::atoi(text));
}

} // namespace

signal_guard::signal_guard(actors::run_control& control, std::string_view program)
    : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  check(current.exchange(&control) == nullptr, "two runs cannot share the process's signals");
  if (wake_ < 0) throw error(std::string("cannot receive signals: ") + std::strerror(errno));
  ending = 0;
  since = 0;
  was_told = quiet = false;
  waker = wake_;
  launcher = launcher_process();
  keep_line_start(program);
  let_wait(SIG_BLOCK); // for good in the thread that is made here
  ender_ = std::thread([this] { stand_by(); });
  handle(SIGINT, on_end);
  handle(SIGTERM, on_end);
  handle(SIGUSR1, on_checkpoint);
  forget(SIGXFSZ, SIG_IGN); // a file-size limit shows as a failed write, which names the file
  let_wait(SIG_UNBLOCK);    // the program that this one replaced may have left some waiting
}

signal_guard::~signal_guard() {
  // A program that was asked to end leaves with its own code, whatever comes on its last steps.
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1})
    if (ending == 0) forget(signal, SIG_DFL);
  current = nullptr;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
  ender_.join();
  waker = -1;
  ::close(wake_);
}

// A kernel, a file that does not come or another rank cannot be interrupted: where nothing is lost, they are left.
void signal_guard::stand_by() {
  pollfd woken{wake_, POLLIN, 0};
  while (::poll(&woken, 1, -1) < 0 && errno == EINTR) {
  }
  constexpr auto look = std::chrono::milliseconds(20);
  for (; true; std::this_thread::sleep_for(look)) {
    const auto* control = current.load();
    if (control == nullptr) return;
    const bool lasts = since != 0 && now_ns() - since > to_leave_ns;
    if (!lasts || held || control->part != run_part::nothing_to_lose) continue;
    remove_unfinished_files();
    ::_exit(exit_code());
  }
}

int signal_guard::exit_code() {
  return ending == 0 ? 0 : code_of(ending);
}

int signal_guard::own_signal() {
  return was_told ? 0 : ending.load();
}

void signal_guard::told(int signal) {
  int none = 0;
  if (signal != SIGINT && signal != SIGTERM) return;
  if (!ending.compare_exchange_strong(none, signal)) return;
  was_told = true;
  begin_end(signal);
}

void signal_guard::keep_quiet() {
  quiet = true;
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
