// Standstills, and what is asked and said about them.
#include "actors/run/watchdog.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace penstock::actors {

namespace {

// Answers come through the control plane; a rank that computes answers at once all the same.
constexpr double answer_seconds = 0.4;

double seconds_between(run_watchdog::clock::time_point from, run_watchdog::clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string text_of(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", seconds);
  return text;
}

} // namespace

run_watchdog::run_watchdog(double stall_seconds, int ranks)
    : stall_seconds_(stall_seconds), slow_seconds_(std::min(10.0, stall_seconds / 3)),
      finished_(static_cast<std::size_t>(ranks), 0) {}

void run_watchdog::restart(clock::time_point now) {
  seen_ = -1;
  progress_at_ = now;
  at_ = stage::moving;
}

void run_watchdog::progress(int rank, std::int64_t finished) {
  finished_.at(static_cast<std::size_t>(rank)) = finished;
}

void run_watchdog::description(int rank, const std::string& text) {
  if (at_ == stage::moving) return; // it moves again
  descriptions_.push_back(finished_.size() > 1 ? "rank " + std::to_string(rank) + ": " + text : text);
}

double run_watchdog::seconds_since_progress(clock::time_point now) const {
  return seconds_between(progress_at_, now);
}

std::string run_watchdog::graph() const {
  std::string all;
  for (const auto& d : descriptions_)
    all += (all.empty() ? "" : "; ") + d;
  return all;
}

run_watchdog::verdict run_watchdog::look(clock::time_point now) {
  verdict v;
  const auto sum = std::accumulate(finished_.begin(), finished_.end(), std::int64_t{0});
  if (sum != seen_) {
    seen_ = sum;
    progress_at_ = now;
    at_ = stage::moving;
    return v;
  }
  const bool answered = seconds_between(asked_at_, now) > answer_seconds;
  const auto ask = [&](stage next) {
    at_ = next;
    asked_at_ = now;
    descriptions_.clear();
    v.ask = true;
  };
  if (at_ == stage::asked_who_is_slow && answered) {
    at_ = stage::named_the_slow;
    for (const auto& d : descriptions_)
      if (finished_.size() > 1 && d.ends_with("is computing"))
        v.slow.push_back(d + " and has been for " + text_of(std::floor(seconds_since_progress(now))) +
                         " s; the others wait for it");
  }
  if (at_ != stage::asked_why && seconds_since_progress(now) > stall_seconds_)
    ask(stage::asked_why);
  else if (at_ == stage::moving && finished_.size() > 1 && seconds_since_progress(now) > slow_seconds_)
    ask(stage::asked_who_is_slow);
  else if (at_ == stage::asked_why && answered)
    v.stalled = "[stall] no progress for " + text_of(stall_seconds_) + " s: " + graph();
  return v;
}

bool run_watchdog::is_time_to_report(clock::time_point now) {
  if (seconds_between(reported_at_, now) < 1) return false;
  reported_at_ = now;
  return true;
}

} // namespace penstock::actors
