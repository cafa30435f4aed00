// Losses in, step events and evaluation totals out.
#include "actors/coordinator_actor.hpp"
#include "actors/source_actor.hpp"
#include "actors/step_log.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>

namespace penstock::actors {

namespace {

class metrics {
public:
  void start(context_ptr context) { context_ = std::move(context); }
  void begin(const begin_segment_msg& m) {
    left_ = planned_ = m.run->plan.minibatches * m.run->plan.microbatches;
    evaluating_ = false;
    const auto microbatches = m.run->plan.microbatches;
    context_->services.steps.begin_segment(m.run->first_minibatch,
                                           (m.run->plan.source_credit() + microbatches - 1) / microbatches);
    report();
  }
  void truncate(const truncate_segment_msg& m) {
    left_ += m.run->plan.minibatches * m.run->plan.microbatches - planned_;
    planned_ = m.run->plan.minibatches * m.run->plan.microbatches;
    report();
  }
  void evaluate(const evaluate_msg& m) {
    evaluating_ = true;
    left_ = planned_ = (m.data->size() + m.batch - 1) / m.batch;
    samples_ = m.data->size();
    evaluated_ = 0;
    is_cut_ = false;
    parts_.clear();
    context_->services.observer.on_progress({"evaluating", 0, samples_});
  }
  void truncate(const truncate_evaluation_msg& m) {
    if (left_ == 0) return; // it is complete, and reported
    is_cut_ = m.batches < planned_;
    left_ += m.batches - planned_;
    report_evaluation();
  }
  void take(const loss_msg& m);
  actor_context& context() { return *context_; }

private:
  void report();
  void report_evaluation();

  context_ptr context_;
  bool evaluating_ = false;
  std::int64_t planned_ = 0;
  std::int64_t left_ = 0;
  std::int64_t samples_ = 0;   // to evaluate
  std::int64_t evaluated_ = 0; // of them
  bool is_cut_ = false;
  std::map<std::int64_t, loss_metrics> parts_; // summed in order at the end, so that totals repeat
};

void metrics::report() {
  if (left_ > 0) return;
  context_->services.steps.end_segment();
  caf::anon_send(context_->coordinator, part_done_msg{"metrics"});
}

void metrics::take(const loss_msg& m) {
  --left_;
  ++context_->progress;
  if (!evaluating_) {
    context_->services.steps.add(m.key.minibatch, m.key.microbatch, m.metrics);
    const auto& control = context_->services.control;
    if (control.stop || control.checkpoint) caf::anon_send(context_->coordinator, drain_msg{});
    report();
    return;
  }
  parts_[m.key.since_drain] = m.metrics;
  evaluated_ += m.metrics.samples;
  report_evaluation();
}

void metrics::report_evaluation() {
  context_->services.observer.on_progress({"evaluating", evaluated_, samples_});
  if (left_ > 0) {
    if (context_->services.control.stop) caf::anon_send(context_->coordinator, drain_msg{});
    return;
  }
  loss_metrics total;
  for (const auto& [batch, part] : parts_)
    total += part;
  caf::anon_send(context_->coordinator, evaluated_msg{total, !is_cut_});
}

caf::behavior metrics_behavior(caf::stateful_actor<metrics>* self, context_ptr context) {
  self->state.start(std::move(context));
  const auto run = [self](auto body) { guarded(self->state.context(), "metrics", body); };
  return {
      [=](const begin_segment_msg& m) { run([&] { self->state.begin(m); }); },
      [=](const truncate_segment_msg& m) { run([&] { self->state.truncate(m); }); },
      [=](const evaluate_msg& m) { run([&] { self->state.evaluate(m); }); },
      [=](const truncate_evaluation_msg& m) { run([&] { self->state.truncate(m); }); },
      [=](const loss_msg& m) { run([&] { self->state.take(m); }); },
  };
}

} // namespace

caf::actor spawn_metrics(caf::actor_system& system, context_ptr context) {
  return system.spawn(metrics_behavior, std::move(context));
}

} // namespace penstock::actors
