// Begin, drain, end, clipping, failure and the watchdog of one plan epoch.
#include "actors/run/coordinator_core.hpp"

#include "actors/optimizer/update_order.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::actors {

coordinator_core::coordinator_core(coordinator_place place)
    : place_(std::move(place)), evaluations_(place_.evaluations), watchdog_(place_.stall_seconds, place_.ranks) {}

// -- notes -----------------------------------------------------------------------------

// Where there is one process, notes to others are notes to oneself.
void coordinator_core::tell(int rank, note n, coordinator_effects& out) const {
  n.from = place_.rank;
  out.emplace_back(tell_rank{rank, std::move(n)});
}

void coordinator_core::tell_all(const note& n, coordinator_effects& out) const {
  for (int r = 0; r < place_.ranks; ++r)
    tell(r, n, out);
}

coordinator_effects coordinator_core::on(const note& n) {
  coordinator_effects out;
  const bool is_current = working_ && n.stretch == stretch_;
  switch (n.about) {
  case note::subject::progress:
    watchdog_.progress(n.from, n.number);
    break;
  case note::subject::describe:
    out.emplace_back(ask_parts{});
    break;
  case note::subject::description:
    watchdog_.description(n.from, n.text);
    break;
  case note::subject::drain: // is said again and again
    if (is_current && !draining_) start_drain(n.number != 0, out);
    break;
  default:
    if (is_current)
      act_on(n, out);
    else
      early_.push_back(n); // another rank began before this one
  }
  return out;
}

void coordinator_core::act_on(const note& n, coordinator_effects& out) {
  switch (n.about) {
  case note::subject::pause:
    out.emplace_back(pause_source{});
    return;
  case note::subject::paused:
    return paused(n, out);
  case note::subject::resume:
    return resume(n.number, out);
  case note::subject::done:
    return rank_done(out);
  default:
    return over(n, out);
  }
}

// -- begin -----------------------------------------------------------------------------

void coordinator_core::begin(std::int64_t stretch, std::size_t parts, clock::time_point now, coordinator_effects& out) {
  check(!working_, "a stretch began before the one before was over");
  stretch_ = stretch;
  parts_left_ = parts;
  draining_ = false;
  ranks_done_ = 0;
  watchdog_.restart(now);
  if (failed_) out.emplace_back(run_has_failed{first_cause_});
  working_ = !failed_;
}

// What other ranks said of a stretch before it had begun here is heard when all parts know of it.
void coordinator_core::take_early(coordinator_effects& out) {
  for (auto& n : std::exchange(early_, {}))
    if (n.stretch == stretch_) act_on(n, out);
}

coordinator_effects coordinator_core::train(stretch_ptr run, clock::time_point now) {
  coordinator_effects out;
  run_ = std::move(run);
  minibatches_ = run_->schedule.minibatches;
  begin(run_->number, place_.training_parts, now, out);
  if (failed_) return out; // perhaps while the parts were made: not all of them are there
  out.emplace_back(begin_training_here{run_});
  if (parts_left_ == 0) report_done(out); // a rank to which the plan gives nothing
  take_early(out);
  return out;
}

coordinator_effects coordinator_core::evaluate(clock::time_point now) {
  coordinator_effects out;
  run_.reset();
  evaluation_ = {};
  is_evaluation_complete_ = true;
  const std::size_t parts = (place_.has_source ? 1 : 0) + (place_.has_metrics ? 1 : 0);
  begin(-1 - evaluations_++, parts, now, out);
  if (failed_) return out;
  out.emplace_back(begin_evaluation_here{stretch_});
  if (parts == 0) report_done(out);
  take_early(out);
  return out;
}

// -- drain -----------------------------------------------------------------------------

// A wish for a checkpoint is no reason to give up an evaluation.
coordinator_effects coordinator_core::drain(bool stops) {
  coordinator_effects out;
  if (working_ && (run_ || stops))
    tell(0, {.about = note::subject::drain, .stretch = stretch_, .number = stops ? 1 : 0}, out);
  return out;
}

void coordinator_core::start_drain(bool stops, coordinator_effects& out) {
  draining_ = true;
  drain_stops_ = stops;
  paused_ranks_ = 0;
  admitted_ = 0;
  for (const int rank : place_.source_ranks)
    tell(rank, {.about = note::subject::pause, .stretch = stretch_}, out);
}

coordinator_effects coordinator_core::admitted(std::int64_t stretch, std::int64_t minibatches) {
  coordinator_effects out;
  tell(0, {.about = note::subject::paused, .stretch = stretch, .number = minibatches}, out);
  return out;
}

// What one source has admitted all must see through; the least that all can agree on is the most that any admitted.
// Where minibatches continue each other, a run that goes on has all columns at one time block (DESIGN section 3).
void coordinator_core::paused(const note& n, coordinator_effects& out) {
  admitted_ = std::max(admitted_, n.number);
  if (++paused_ranks_ < place_.source_ranks.size()) return;
  if (run_ && !drain_stops_) admitted_ = std::min(whole_rounds(*run_, admitted_), minibatches_);
  tell_all({.about = note::subject::resume, .stretch = stretch_, .number = admitted_}, out);
}

void coordinator_core::resume(std::int64_t minibatches, coordinator_effects& out) {
  const bool is_shorter = !run_ || minibatches < minibatches_;
  if (run_) minibatches_ = std::min(minibatches_, minibatches);
  out.emplace_back(end_after_here{{stretch_, minibatches}, is_shorter});
}

// -- end -------------------------------------------------------------------------------

coordinator_effects coordinator_core::part_done() {
  coordinator_effects out;
  if (failed_) return out;
  check(parts_left_ > 0, "a part was done twice");
  if (--parts_left_ == 0) report_done(out);
  return out;
}

coordinator_effects coordinator_core::evaluated(const loss_metrics& total, bool is_complete) {
  evaluation_ = total;
  is_evaluation_complete_ = is_complete;
  return part_done();
}

void coordinator_core::report_done(coordinator_effects& out) const {
  tell(0, {.about = note::subject::done, .stretch = stretch_}, out);
}

// How far it went, rank 0 knows: one to which the plan gives nothing is done before a drain reaches it.
void coordinator_core::rank_done(coordinator_effects& out) {
  if (++ranks_done_ < place_.ranks) return;
  note n{.about = note::subject::over, .stretch = stretch_, .metrics = evaluation_};
  n.number = run_ ? minibatches_ : static_cast<std::int64_t>(is_evaluation_complete_);
  tell_all(n, out);
}

void coordinator_core::over(const note& n, coordinator_effects& out) {
  working_ = false;
  if (run_) {
    run_.reset();
    out.emplace_back(stretch_is_over{n.number});
  } else {
    out.emplace_back(evaluation_is_over{n.metrics, n.number != 0});
  }
}

// The norm is formed over all stages in stage order, parameter by parameter, so that it does not depend on the cuts.
coordinator_effects coordinator_core::on(const norm_msg& m) {
  coordinator_effects out;
  squares_.resize(place_.stages);
  squares_.at(static_cast<std::size_t>(m.stage)) = m.squares;
  if (++squares_in_ < place_.stages - place_.frozen_stages) return out;
  squares_in_ = 0;
  double sum = 0;
  for (const auto& stage : squares_)
    for (const auto q : stage)
      sum += q;
  out.emplace_back(send_clip{{m.stretch, m.group, clip_factor(std::sqrt(sum), place_.clip_norm)}});
  return out;
}

// -- failure ---------------------------------------------------------------------------

void coordinator_core::fail(const std::string& text, coordinator_effects& out) {
  if (failed_) return; // the first cause is the one that counts
  failed_ = true;
  working_ = false;
  first_cause_ = text;
  out.emplace_back(run_has_failed{text});
}

coordinator_effects coordinator_core::failed(const std::string& who, const std::string& what) {
  coordinator_effects out;
  const bool is_tagged = what.starts_with("[") || who.empty();
  fail(is_tagged ? what : "[" + who + "] " + what, out);
  return out;
}

coordinator_effects coordinator_core::died(const std::string& who, const std::string& why) {
  coordinator_effects out;
  fail("[" + who + "] ended though the run goes on: " + why, out);
  return out;
}

// Rank 0 watches the whole job: a rank whose neighbours compute has nothing to report.
coordinator_effects coordinator_core::tick(clock::time_point now, std::int64_t progress) {
  coordinator_effects out;
  if (!working_) return out;
  if (place_.rank != 0) {
    if (watchdog_.is_time_to_report(now))
      tell(0, {.about = note::subject::progress, .stretch = stretch_, .number = progress}, out);
    return out;
  }
  watchdog_.progress(0, progress);
  const auto verdict = watchdog_.look(now);
  if (verdict.ask) tell_all({.about = note::subject::describe, .stretch = stretch_}, out);
  for (const auto& line : verdict.slow)
    out.emplace_back(say{line});
  if (!verdict.stalled.empty()) fail(verdict.stalled, out);
  return out;
}

coordinator_effects coordinator_core::described(const std::string& text) {
  coordinator_effects out;
  tell(0, {.about = note::subject::description, .stretch = stretch_, .text = text}, out);
  return out;
}

} // namespace penstock::actors
