// Losses in, step events and evaluation totals out.
#include "actors/run/step_log.hpp"
#include "actors/source/source_actor.hpp"
#include "actors/stage/places.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

namespace penstock::actors {

namespace {

class metrics_shell {
public:
  void start(context_ptr context) {
    context_ = std::move(context);
    core_ = metrics_core(metrics_tellers(context_->services.built));
  }
  void take(const begin_training_msg& m) { carry_out(core_.on(m)); }
  void take(const evaluate_losses_msg& m) {
    samples_ = m.samples;
    carry_out(core_.on(m.what));
  }
  void take(const end_after_msg& m) { carry_out(core_.on(m)); }
  void take(const say_msg& m) { context_->services.observer.on_note(m.line); }
  void take(const loss_msg& m) {
    ++context_->progress;
    carry_out(core_.on(m));
  }
  actor_context& context() { return *context_; }

private:
  void carry_out(metrics_effects effects) {
    for (auto& e : effects)
      std::visit([this](auto& one) { carry_out_one(one); }, e);
  }
  void carry_out_one(const begin_steps& e) {
    const auto& s = e.run->schedule;
    context_->services.steps.begin_stretch(e.run->first_minibatch,
                                           (s.source_credit() + s.microbatches - 1) / s.microbatches);
  }
  void carry_out_one(const add_loss& e) {
    const auto& m = e.message;
    context_->services.steps.add(m.key.minibatch, m.key.microbatch, m.metrics);
    if (context_->services.control.wants_drain()) caf::anon_send(context_->coordinator, drain_msg{});
  }
  void carry_out_one(const losses_are_in&) {
    context_->services.steps.end_stretch();
    caf::anon_send(context_->coordinator, part_done_msg{});
  }
  void carry_out_one(const evaluation_so_far& e) {
    context_->services.observer.on_progress({"evaluating", e.samples, samples_});
    if (e.samples < samples_ && context_->services.control.stop) caf::anon_send(context_->coordinator, drain_msg{});
  }
  void carry_out_one(evaluation_results& e) {
    batch_results results{e.batch, {}};
    for (auto& t : e.tensors)
      results.tensors[t.name] = std::move(t.value);
    context_->services.observer.on_results(results);
  }
  void carry_out_one(const evaluation_is_in& e) {
    caf::anon_send(context_->coordinator, evaluated_msg{e.total, e.is_complete});
  }

  context_ptr context_;
  metrics_core core_;
  std::int64_t samples_ = 0; // to evaluate
};

caf::behavior metrics_behavior(caf::stateful_actor<metrics_shell>* self, context_ptr context) {
  self->state.start(std::move(context));
  const auto take = [self](const auto& m) { guarded(self->state.context(), "metrics", [&] { self->state.take(m); }); };
  return {
      [=](const begin_training_msg& m) { take(m); }, [=](const evaluate_losses_msg& m) { take(m); },
      [=](const end_after_msg& m) { take(m); },      [=](const say_msg& m) { take(m); },
      [=](const loss_msg& m) { take(m); },
  };
}

} // namespace

caf::actor spawn_metrics(caf::actor_system& system, context_ptr context) {
  return system.spawn<caf::detached>(metrics_behavior, std::move(context));
}

} // namespace penstock::actors
