// Waits for whatever happens to the ranks, passes on what they say and what the user wants, and ends what must end.
#include "tools/launch/job.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"
#include "tools/launch/starter.hpp"
#include "transport/control/words.hpp"

#include <algorithm>
#include <csignal>
#include <exception>
#include <poll.h>
#include <unistd.h>

namespace penstock::tools::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto time_after_term = 1s;     ///< a rank whose job is lost has nothing to save
constexpr auto time_after_kill = 2s;     ///< for the kill to travel to other hosts
constexpr auto time_to_die = 5s;         ///< a process that hangs in the kernel outlives even SIGKILL
constexpr auto time_for_stragglers = 3s; ///< that the others have done without
constexpr auto same_request = 1s;        ///< some senders signal a process and its group: that is not a second request
constexpr auto longest_look = 500ms;
constexpr int usage_code = 2;

} // namespace

job::job(const launch_options& options, const std::vector<place>& places, signal_inbox& signals, outlet& out)
    : options_(options), places_(places), signals_(signals), out_(out),
      errors_(places.size(), [this](std::size_t rank, const std::string& line) { print(STDERR_FILENO, rank, line); }) {}

job::~job() {
  for (auto& rank : ranks_) {
    if (rank.is_running()) rank.send(SIGKILL);
    rank.kill_here();
  }
}

job_result job::run(int restarts) {
  std::exception_ptr not_started;
  try {
    start(restarts);
  } catch (const error&) {
    not_started = std::current_exception();
    send_to_all(SIGKILL);
    enter(force::killed, time_after_kill);
  }
  while (!is_over()) {
    wait_for_something();
    take_signals();
    notice_ends();
    kill_stopped();
    push();
    errors_.passed(clock::now(), force_ > force::stopping);
  }
  auto result = finish();
  if (not_started && ended_by_user_ == 0) std::rethrow_exception(not_started);
  return result;
}

void job::start(int restarts) {
  const starter starter(options_, places_, restarts);
  for (std::size_t r = 0; r < places_.size(); ++r) {
    try {
      ranks_.push_back(starter.start(
          places_[r], [this, r](const std::string& line) { print(STDOUT_FILENO, r, line); },
          [this, r](std::string line) { errors_.said(r, std::move(line), clock::now()); }));
    } catch (const error& e) {
      throw error("launch: rank " + std::to_string(r) + " of " + std::to_string(places_.size()) + ": " + e.what());
    }
    guard_.watch(ranks_[r].group());
    watched_.insert(ranks_[r].group());
  }
}

void job::wait_for_something() {
  std::vector<pollfd> polled{{signals_.readable(), POLLIN, 0}};
  std::vector<line_reader*> readers;
  if (!out_.is_empty()) polled.push_back({out_.writable(), POLLOUT, 0});
  const auto first_reader = polled.size();
  for (auto& rank : ranks_) {
    for (auto* reader : {&rank.output, &rank.errors}) {
      if (!reader->is_open() || out_.is_full()) continue;
      readers.push_back(reader);
      polled.push_back({reader->readable(), POLLIN, 0});
    }
  }
  const auto limit = std::clamp<clock::duration>(deadline_ - clock::now(), 0ms, longest_look);
  const auto limit_ms = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  if (::poll(polled.data(), polled.size(), static_cast<int>(limit_ms)) <= 0) return;
  if (first_reader == 2 && polled[1].revents != 0) out_.write_some();
  for (std::size_t i = 0; i < readers.size(); ++i)
    if (polled[first_reader + i].revents != 0) readers[i]->read_some();
}

void job::take_signals() {
  for (int signal : signals_.take()) {
    if (signal == SIGCHLD) continue;
    if (signal == SIGHUP) signal = SIGTERM; // the terminal is gone: an orderly end
    if (signal == SIGUSR1) {
      send_to_all(signal);
    } else if (ended_by_user_ == 0) {
      ended_by_user_ = signal;
      user_spoke_ = clock::now();
      send_to_all(signal);
      if (force_ == force::none) enter(force::stopping, options_.stop_grace);
    } else if (force_ < force::killed && (signal != ended_by_user_ || clock::now() - user_spoke_ > same_request)) {
      send_to_all(SIGKILL);
      enter(force::killed, time_after_kill);
    }
  }
}

void job::notice_ends() {
  std::vector<rank_process*> ended;
  // Under a wrapper that dies of the user's signal at once, the program itself may still be about to end in order.
  const auto rest = ended_by_user_ == 0 ? rank_process::leftover::kill : rank_process::leftover::spare;
  is_anything_left_ = false;
  for (auto& rank : ranks_) {
    if (rank.notice_end(rest)) ended.push_back(&rank);
    if (!rank.is_gone())
      is_anything_left_ = true;
    else if (watched_.erase(rank.group()) != 0)
      guard_.forget(rank.group());
  }
  // Of those that ended since the last look, one that was killed, or obeyed a signal, did not end because of the
  // others.
  std::stable_partition(ended.begin(), ended.end(), [](const auto* r) { return r->how_it_ended()->is_by_signal(); });
  for (auto* rank : ended)
    judge(*rank);
}

void job::judge(rank_process& rank) {
  const auto& how = *rank.how_it_ended();
  if (rank.is_gone()) {
    rank.output.drain();
    rank.errors.drain();
  }
  errors_.ended(static_cast<std::size_t>(rank.where().rank), how.is_failure());
  if (options_.when_lost == on_loss::shrink && rank.where().rank == 0 && !how.is_failure() && !is_done_) {
    is_done_ = true; // whoever is left was lost without an end of its own: stopped, or cut off
    if (force_ == force::none) enter(force::patience, time_for_stragglers);
  }
  if (!how.is_failure() || is_done_ || is_users_doing(how) || first_failed_) return;
  const auto number = static_cast<std::size_t>(rank.where().rank);
  if (how.is_of_follower()) {
    if (!first_follower_) give_the_others_patience();
    if (!first_follower_) first_follower_ = number;
    return;
  }
  if (can_go_on_without(rank)) {
    say(rank.name() + " " + rank.description() + "; the others go on");
    return;
  }
  first_failed_ = number;
  give_the_others_patience();
}

void job::give_the_others_patience() {
  if (force_ <= force::stopping)
    enter(force::patience, std::min<clock::duration>(options_.grace, deadline_ - clock::now()));
}

bool job::is_users_doing(const ending& how) const {
  return ended_by_user_ != 0 && (how.code() == 128 + ended_by_user_ || force_ >= force::killed);
}

bool job::can_go_on_without(const rank_process& rank) const {
  return force_ < force::killed && options_.when_lost == on_loss::shrink && rank.where().rank != 0 &&
         ranks_.front().is_running() && rank.how_it_ended()->code() != usage_code && ended_by_user_ == 0;
}

// A stopped rank hears nothing and saves nothing. Where the job is decided, or has nobody else left, it goes on
// without.
void job::kill_stopped() {
  if (!first_failed_ && !first_follower_ && !is_done_) {
    if (!are_only_stopped_left()) {
      only_stopped_since_.reset();
      return;
    }
    if (!only_stopped_since_) only_stopped_since_ = clock::now();
    if (clock::now() - *only_stopped_since_ < time_for_stragglers) return;
  }
  for (auto& rank : ranks_)
    if (rank.is_stopped()) rank.send(SIGKILL);
}

bool job::are_only_stopped_left() const {
  const auto running = std::count_if(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.is_running(); });
  const auto stopped = std::count_if(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.is_stopped(); });
  return stopped > 0 && stopped == running && stopped < std::ssize(ranks_);
}

void job::push() {
  if (clock::now() < deadline_) return;
  switch (force_) {
  case force::none:
  case force::given_up:
    break;
  case force::stopping:
    say(std::to_string(left()) + " of " + std::to_string(ranks_.size()) + " ranks have not ended within " +
        transport::text_of(options_.stop_grace) + " after signal " + std::to_string(ended_by_user_) +
        " (--stop-grace): killed");
    send_to_all(SIGKILL);
    enter(force::killed, time_after_kill);
    break;
  case force::patience:
    send_to_all(SIGTERM);
    enter(force::asked, time_after_term);
    break;
  case force::asked:
    send_to_all(SIGKILL);
    enter(force::killed, time_after_kill);
    break;
  case force::killed:
    for (auto& rank : ranks_)
      if (rank.is_running()) rank.kill_here();
    enter(force::killed_here, time_to_die);
    break;
  case force::killed_here:
    enter(force::given_up, 0s);
    break;
  }
}

void job::enter(force next, clock::duration limit) {
  force_ = next;
  deadline_ = clock::now() + limit;
}

bool job::is_over() const {
  if (!is_anything_left_ || force_ == force::given_up) return true;
  return !is_anyone_running() && force_ >= force::killed;
}

bool job::is_anyone_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.is_running(); });
}

std::size_t job::left() {
  return static_cast<std::size_t>(
      std::count_if(ranks_.begin(), ranks_.end(), [](auto& rank) { return !rank.is_gone(); }));
}

job_result job::finish() {
  job_result result;
  for (auto& rank : ranks_) {
    if (rank.is_running()) say(rank.name() + " does not die, process " + std::to_string(rank.group()));
    rank.kill_here();
    rank.output.drain();
    rank.errors.drain();
    errors_.ended(static_cast<std::size_t>(rank.where().rank), false);
    if (ended_by_user_ != 0 && rank.how_it_ended() && rank.how_it_ended()->is_failure())
      result.exit_code = 128 + ended_by_user_;
  }
  result.is_by_user = ended_by_user_ != 0;
  if (const auto cause = first_failed_ ? first_failed_ : first_follower_) {
    const auto& rank = ranks_[*cause];
    result.exit_code = first_failed_ ? rank.how_it_ended()->code() : 1;
    result.cause = rank.name() + " " + rank.description();
    result.may_try_again = !result.is_by_user && result.exit_code != usage_code;
  }
  return result;
}

void job::send_to_all(int signal) {
  for (auto& rank : ranks_)
    if (rank.is_running()) rank.send(signal);
}

void job::print(int to, std::size_t rank, const std::string& line) {
  std::string text;
  // Rank 0 may be drawing a line of its own there.
  if (to == STDERR_FILENO && ::isatty(STDERR_FILENO) != 0) text += "\r\x1b[K";
  const bool is_the_jobs_own = rank == 0 && to == STDOUT_FILENO; // rank 0 speaks for all
  if (options_.is_tagged && places_.size() > 1 && !is_the_jobs_own) text += "[" + std::to_string(rank) + "] ";
  out_.put(to, text + line + "\n");
}

void job::say(const std::string& line) {
  out_.put(STDERR_FILENO, "penstock launch: " + one_line(line) + "\n");
}

} // namespace penstock::tools::launcher
