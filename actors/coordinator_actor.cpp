// Start, drain, evaluation, clipping, failure and the watchdog of one run.
#include "actors/coordinator_actor.hpp"

#include "actors/ranks/channels.hpp"
#include "actors/ranks/job.hpp"
#include "actors/ranks/watchdog.hpp"
#include "actors/wiring.hpp"
#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <cmath>
#include <utility>

namespace penstock::actors {

namespace {

class coordinator {
public:
  void start(caf::event_based_actor* self) { self_ = self; }
  void start_run(const start_run_msg& m);
  void train(const train_msg& m);
  void drain();
  void admitted(const admitted_msg& m);
  void part_done();
  void norm(const norm_msg& m);
  void evaluate(const start_evaluation_msg& m);
  void evaluated(const evaluated_msg& m);
  void failed(const failure_msg& m);
  void tick();
  void described(const wait_description_msg& m);
  void take(const note& n);
  void stop();

private:
  void begin(std::int64_t segment, std::size_t parts, const caf::actor& reply_to);
  void report_done();
  void send_truncated(std::int64_t minibatches);
  void tell(int rank, note n);
  void tell_all(const note& n);
  void act_on(const note& n);
  void start_drain();
  void paused(const note& n);
  void done();
  void over(const note& n);
  void ask_parts();
  void fail(const std::string& text);
  const job* ranks() const { return context_->services.inputs.ranks; }
  pipeline& parts() { return context_->services.parts; }
  int rank_count() { return parts().where.ranks; }

  caf::event_based_actor* self_ = nullptr;
  context_ptr context_;
  std::shared_ptr<gate> incoming_;
  wired_actors all_;
  caf::actor reply_to_;

  planner::schedule dealing_;
  segment_run_ptr run_;      // while training
  std::int64_t segment_ = 0; // the stretch at hand; evaluations count down from -1
  bool working_ = false;     // from its begin until all ranks are done
  bool failed_ = false;
  std::string first_cause_;
  std::size_t parts_left_ = 0;
  std::vector<note> early_;                  // of a stretch that has not begun here
  loss_metrics evaluation_;                  // rank 0's total
  std::int64_t is_evaluation_complete_ = 1;  // or 0
  std::vector<std::vector<double>> squares_; // of one update, per stage
  std::size_t squares_in_ = 0;

  // Of rank 0.
  bool draining_ = false;
  int paused_ranks_ = 0;
  std::int64_t admitted_ = 0;
  int ranks_done_ = 0;
  run_watchdog watchdog_;
};

// -- start --------------------------------------------------------------------------

void coordinator::start_run(const start_run_msg& m) {
  context_ = m.context;
  dealing_ = m.dealing;
  incoming_ = m.incoming;
  all_ = wire_actors(self_->system(), context_, dealing_, caf::actor_cast<caf::actor>(self_), incoming_.get());
  watchdog_ = run_watchdog(context_->services.options.stall_seconds, rank_count());
  self_->delayed_send(self_, std::chrono::milliseconds(100), tick_msg{});
}

// Where there is one process, notes to others are notes to oneself.
void coordinator::tell(int rank, note n) {
  n.from = parts().rank;
  if (rank == parts().rank)
    caf::anon_send(caf::actor_cast<caf::actor>(self_), std::move(n));
  else
    ranks()->control.send(rank, note_topic, encode(n));
}

void coordinator::tell_all(const note& n) {
  for (int r = 0; r < rank_count(); ++r)
    tell(r, n);
}

void coordinator::take(const note& n) {
  if (n.about == note::subject::progress) return watchdog_.progress(n.from, n.number);
  if (n.about == note::subject::describe) return ask_parts();
  if (n.about == note::subject::description) return watchdog_.description(n.from, n.text);
  const bool is_current = working_ && n.segment == segment_;
  if (n.about == note::subject::drain) { // is said again and again
    if (is_current && !draining_) start_drain();
    return;
  }
  if (is_current)
    act_on(n);
  else
    early_.push_back(n); // another rank began before this one
}

void coordinator::act_on(const note& n) {
  switch (n.about) {
  case note::subject::pause:
    return caf::anon_send(all_.source, stop_admitting_msg{});
  case note::subject::paused:
    return paused(n);
  case note::subject::resume:
    return send_truncated(n.number);
  case note::subject::done:
    return done();
  default:
    return over(n);
  }
}

void coordinator::start_drain() {
  draining_ = true;
  paused_ranks_ = 0;
  admitted_ = 0;
  for (const int rank : parts().where.hosts(0))
    tell(rank, {.about = note::subject::pause, .segment = segment_});
}

// -- training --------------------------------------------------------------------------

void coordinator::begin(std::int64_t segment, std::size_t parts, const caf::actor& reply_to) {
  segment_ = segment;
  parts_left_ = parts;
  reply_to_ = reply_to;
  working_ = true;
  draining_ = false;
  ranks_done_ = 0;
  watchdog_.restart(run_watchdog::clock::now());
  if (failed_) caf::anon_send(reply_to_, failure_msg{"", first_cause_});
  for (const auto& n : std::exchange(early_, {}))
    if (n.segment == segment_) caf::anon_send(caf::actor_cast<caf::actor>(self_), n); // when all parts have begun
}

void coordinator::train(const train_msg& m) {
  run_ = m.run;
  begin(run_->segment, all_.parts(), m.reply_to);
  if (failed_) return; // perhaps while the actors were made: not all of them are there
  // A replica that has no minibatch in this segment speaks to its group as soon as it begins.
  for (const auto* first : {&all_.groups, &all_.optimizers})
    for (const auto& a : *first)
      if (a) caf::anon_send(a, begin_segment_msg{run_, nullptr});
  for (auto& s : parts().stages)
    for (const int r : s.local)
      caf::anon_send(all_.stages[static_cast<std::size_t>(s.index)][static_cast<std::size_t>(r)],
                     begin_segment_msg{run_, s.weights});
  if (all_.metrics) caf::anon_send(all_.metrics, begin_segment_msg{run_, nullptr});
  if (incoming_) incoming_->open(segment_);
  // Last: nothing is admitted before all know the plan.
  if (all_.source) caf::anon_send(all_.source, begin_segment_msg{run_, nullptr});
  if (parts_left_ == 0) report_done(); // a rank to which the plan gives nothing
}

// A wish for a checkpoint is no reason to give up an evaluation.
void coordinator::drain() {
  if (working_ && (run_ || context_->services.control.stop))
    tell(0, {.about = note::subject::drain, .segment = segment_});
}

void coordinator::admitted(const admitted_msg& m) {
  tell(0, {.about = note::subject::paused, .segment = m.segment, .number = m.minibatches});
}

// What one source has admitted all must see through; the least that all can agree on is the most that any admitted.
void coordinator::paused(const note& n) {
  admitted_ = std::max(admitted_, n.number);
  if (++paused_ranks_ < all_.source_ranks) return;
  tell_all({.about = note::subject::resume, .segment = segment_, .number = admitted_});
}

void coordinator::send_truncated(std::int64_t minibatches) {
  if (!run_) {
    const truncate_evaluation_msg cut{segment_, minibatches};
    if (all_.metrics) caf::anon_send(all_.metrics, cut);
    if (all_.source) caf::anon_send(all_.source, cut);
    return;
  }
  if (minibatches < run_->plan.minibatches) {
    auto shorter = std::make_shared<segment_run>(*run_);
    shorter->plan.minibatches = minibatches;
    run_ = shorter;
    for (const auto& stage : all_.local_stages)
      caf::anon_send(stage, truncate_segment_msg{run_});
    for (const auto& o : all_.optimizers)
      if (o) caf::anon_send(o, truncate_segment_msg{run_});
    if (all_.metrics) caf::anon_send(all_.metrics, truncate_segment_msg{run_});
  }
  if (all_.source) caf::anon_send(all_.source, truncate_segment_msg{run_});
}

void coordinator::part_done() {
  check(parts_left_ > 0, "a part was done twice");
  if (--parts_left_ == 0) report_done();
}

void coordinator::report_done() {
  tell(0, {.about = note::subject::done, .segment = segment_});
}

// How far it went, rank 0 knows: one to which the plan gives nothing is done before a drain reaches it.
void coordinator::done() {
  if (++ranks_done_ < rank_count()) return;
  tell_all({.about = note::subject::over,
            .segment = segment_,
            .number = run_ ? run_->plan.minibatches : is_evaluation_complete_,
            .metrics = evaluation_});
}

void coordinator::over(const note& n) {
  working_ = false;
  if (run_) {
    run_.reset();
    caf::anon_send(reply_to_, segment_done_msg{n.number});
  } else {
    caf::anon_send(reply_to_, evaluated_msg{n.metrics, n.number != 0});
  }
}

// The norm is formed over all stages in stage order, parameter by parameter, so that it does not depend on the cuts.
void coordinator::norm(const norm_msg& m) {
  squares_.resize(all_.stages.size());
  squares_[static_cast<std::size_t>(m.stage)] = m.squares;
  if (++squares_in_ < all_.stages.size()) return;
  squares_in_ = 0;
  double sum = 0;
  for (const auto& stage : squares_)
    for (const auto q : stage)
      sum += q;
  const auto factor = clip_factor(std::sqrt(sum), context_->services.options.clip_norm);
  for (const auto& o : all_.all_optimizers)
    caf::anon_send(o, clip_msg{m.segment, m.group, factor});
}

// -- evaluation ------------------------------------------------------------------------

void coordinator::evaluate(const start_evaluation_msg& m) {
  run_.reset();
  const std::size_t parts_here = (all_.source ? 1 : 0) + (all_.metrics ? 1 : 0);
  begin(-1 - m.evaluation, parts_here, m.reply_to);
  if (failed_) return;
  evaluation_ = {};
  for (auto& s : parts().stages) {
    const auto i = static_cast<std::size_t>(s.index);
    for (const int r : s.local)
      caf::anon_send(all_.stages[i][static_cast<std::size_t>(r)],
                     begin_evaluation_msg{segment_, s.weights, m.states[i]});
  }
  const evaluate_msg start{segment_, m.data, m.batch, dealing_.source_credit()};
  if (all_.metrics) caf::anon_send(all_.metrics, start);
  if (incoming_) incoming_->open(segment_);
  if (all_.source) caf::anon_send(all_.source, start);
  if (parts_here == 0) report_done();
}

void coordinator::evaluated(const evaluated_msg& m) {
  evaluation_ = m.total;
  is_evaluation_complete_ = m.is_complete ? 1 : 0;
  part_done();
}

// -- failure ------------------------------------------------------------------------------

void coordinator::fail(const std::string& text) {
  if (failed_) return; // the first cause is the one that counts
  failed_ = true;
  working_ = false;
  first_cause_ = text;
  if (reply_to_) caf::anon_send(reply_to_, failure_msg{"", text});
}

void coordinator::failed(const failure_msg& m) {
  const bool tagged = m.what.starts_with("[") || m.who.empty();
  fail(tagged ? m.what : "[" + m.who + "] " + m.what);
}

// Rank 0 watches the whole job: a rank whose neighbours compute has nothing to report.
void coordinator::tick() {
  self_->delayed_send(self_, std::chrono::milliseconds(100), tick_msg{});
  if (!working_) return;
  if (ranks() != nullptr) ranks()->control.doing(context_->describe());
  const auto progress = context_->progress.load();
  if (parts().rank != 0) {
    if (watchdog_.is_time_to_report(run_watchdog::clock::now()))
      tell(0, {.about = note::subject::progress, .segment = segment_, .number = progress});
    return;
  }
  watchdog_.progress(0, progress);
  const auto verdict = watchdog_.look(run_watchdog::clock::now());
  if (verdict.ask) tell_all({.about = note::subject::describe, .segment = segment_});
  for (const auto& line : verdict.slow)
    context_->services.observer.on_note(line);
  if (!verdict.stalled.empty()) fail(verdict.stalled);
}

void coordinator::ask_parts() {
  if (all_.source) caf::anon_send(all_.source, describe_wait_msg{});
  for (const auto& stage : all_.local_stages)
    caf::anon_send(stage, describe_wait_msg{});
  for (const auto& o : all_.optimizers)
    if (o) caf::anon_send(o, describe_wait_msg{});
  for (const auto& s : parts().stages)
    if (s.is_local() && parts().where.hosts(s.index).size() > 1)
      caf::anon_send(all_.groups[static_cast<std::size_t>(s.index)], describe_wait_msg{});
}

void coordinator::described(const wait_description_msg& m) {
  tell(0, {.about = note::subject::description, .segment = segment_, .text = m.text});
}

void coordinator::stop() {
  if (incoming_) incoming_->close();
  for (const auto& a : all_.everyone())
    caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
  self_->quit();
}

caf::behavior coordinator_behavior(caf::stateful_actor<coordinator>* self) {
  auto& state = self->state;
  state.start(self);
  self->set_exit_handler([&state](caf::exit_msg&) { state.stop(); });
  const auto run = [self](auto body) {
    try {
      body();
    } catch (const std::exception& e) {
      self->state.failed({"coordinator", described(e)});
    }
  };
  return {
      [=, &state](const start_run_msg& m) { run([&] { state.start_run(m); }); },
      [=, &state](const train_msg& m) { run([&] { state.train(m); }); },
      [=, &state](const drain_msg&) { run([&] { state.drain(); }); },
      [=, &state](const admitted_msg& m) { run([&] { state.admitted(m); }); },
      [=, &state](const part_done_msg&) { run([&] { state.part_done(); }); },
      [=, &state](const norm_msg& m) { run([&] { state.norm(m); }); },
      [=, &state](const start_evaluation_msg& m) { run([&] { state.evaluate(m); }); },
      [=, &state](const evaluated_msg& m) { run([&] { state.evaluated(m); }); },
      [=, &state](const failure_msg& m) { run([&] { state.failed(m); }); },
      [=, &state](const wait_description_msg& m) { run([&] { state.described(m); }); },
      [=, &state](const note& m) { run([&] { state.take(m); }); },
      [=, &state](const tick_msg&) { run([&] { state.tick(); }); },
  };
}

} // namespace

caf::actor spawn_coordinator(caf::actor_system& system) {
  return system.spawn(coordinator_behavior);
}

} // namespace penstock::actors
