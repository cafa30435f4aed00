// Carries out what a stage replica's core decides: onto the stream, to the neighbours, into the trace.
#include "actors/stage_actor.hpp"

#include "actors/ranks/wire.hpp"
#include "actors/stage_compute.hpp"
#include "actors/stage_copies.hpp"
#include "actors/stage_tracer.hpp"

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace penstock::actors {

namespace {

/// What work on the stream needs of its replica; it may outlive the actor when a run fails.
struct stream_side {
  context_ptr context;
  stage_unit* unit = nullptr;
  replica_unit* own = nullptr;
  stage_tracer trace;

  // Every handle that was read through is gone before the completion is sent.
  void compute(backend& ops, stage_job& job, const std::function<void(int)>& layer_done) {
    job.begin_ns = trace_recorder::now_ns();
    adopt_layouts(ops, job.inputs);
    compute_job(ops, context->services.parts, *unit, *own, job, layer_done);
    job.drop_inputs();
    job.end_ns = trace_recorder::now_ns();
    trace.computed(job);
  }
};

class stage_shell {
public:
  void start(stage_actor::pointer self, context_ptr context, const stage_place& place, std::vector<tensor> states,
             std::shared_ptr<const bucket_plan> buckets) {
    self_ = self;
    context_ = std::move(context);
    core_.emplace(place, std::move(states));
    who_ = name_of(place);
    unit_ = &context_->services.parts.stages.at(static_cast<std::size_t>(place.stage));
    own_ = &unit_->replicas.at(static_cast<std::size_t>(place.replica));
    trace_ = stage_tracer(context_->services.trace, place.stage, place.replica);
    on_stream_->context = context_;
    on_stream_->unit = unit_;
    on_stream_->own = own_;
    on_stream_->trace = trace_;
    buckets_ = std::move(buckets);
  }

  void connect(connect_stage_msg m) { links_ = std::move(m); }
  void take(activation_msg m) {
    trace_.received(m.key, total_bytes(m.tensors), core_->place().stage - 1, core_->activations_held());
    carry_out(core_->on(std::move(m)));
  }
  void take(gradient_msg m) {
    trace_.received(m.key, total_bytes(m.tensors), core_->place().stage + 1, core_->gradients_held());
    carry_out(core_->on(std::move(m)));
  }
  void take(begin_training_msg m) {
    trace_.begin_segment(m.run->number);
    carry_out(core_->on(m));
  }
  template <class Message>
  void take(Message m) {
    carry_out(core_->on(std::move(m)));
  }
  void take(computed_msg m) {
    if (m.failure) std::rethrow_exception(m.failure);
    ++context_->progress;
    carry_out(core_->completed(*m.job));
  }
  void take(const collect_msg& m) {
    collected_msg answer{core_->place().stage, {}, {}};
    answer.copy = copy_states(*unit_, core_->place().replica, core_->states(), m.what, m.after, *m.pool);
    caf::anon_send(m.reply_to, std::move(answer));
  }
  std::string describe_wait() const { return core_->describe_wait(); }
  actor_context& context() { return *context_; }
  const std::string& who() const { return who_; }

private:
  void carry_out(stage_effects effects) {
    for (auto& e : effects)
      std::visit([this](auto& one) { carry_out(one); }, e);
    if (!trace_.is_on()) return;
    if (const auto blocked = core_->waits_for())
      trace_.wait_begins(*blocked, core_->first_minibatch(), core_->place().replicas > 1);
  }

  void carry_out(compute& e) {
    trace_.wait_ends();
    context_->stage = core_->place().stage;
    context_->minibatch = e.job->what == stage_job::kind::evaluate ? -1 : e.job->key.minibatch;
    const auto address = caf::actor_cast<stage_actor>(self_);
    auto layer_done = e.job->completes_group >= 0 ? bucket_sender(*e.job) : std::function<void(int)>();
    own_->work->post([on_stream = on_stream_, raw = e.job.get(),
                      done = std::move(layer_done)](backend& ops) { on_stream->compute(ops, *raw, done); },
                     [job = e.job, address](std::exception_ptr failure) {
                       caf::anon_send(address, computed_msg{job, std::move(failure)});
                     });
  }
  void carry_out(send_activation& e) { send(links_.next, std::move(e.message), core_->place().stage + 1); }
  void carry_out(send_gradient& e) { send(links_.previous, std::move(e.message), core_->place().stage - 1); }
  void carry_out(send_loss& e) { caf::anon_send(links_.metrics, std::move(e.message)); }
  void carry_out(return_credit& e) {
    const auto replica = static_cast<std::size_t>(links_.deal_first(e.message.key));
    caf::anon_send(links_.sources.at(replica), std::move(e.message));
  }
  void carry_out(give_gradients& e) {
    trace_.wait_ends();
    caf::anon_send(links_.optimizer, std::move(e.share));
  }
  void carry_out(part_is_done&) {
    trace_.wait_ends();
    caf::anon_send(context_->coordinator, part_done_msg{});
  }

  template <class Message>
  void send(const neighbour_side& side, Message m, int peer) {
    trace_.sent(m.key, total_bytes(m.tensors), peer);
    const auto& to = side.of(m.key);
    caf::anon_send(to, std::move(m));
  }

  // Hands each bucket over, on the stream, as soon as the layers that it belongs to are done.
  std::function<void(int)> bucket_sender(const stage_job& job) const {
    return [next = std::size_t{0}, group = job.completes_group, stretch = job.key.stretch, sum = job.gradients,
            plan = buckets_, layers = unit_->layers, to = links_.optimizer,
            replica = core_->place().replica](int layer) mutable {
      for (; next < plan->size() && (*plan)[next].first >= layers->first_parameter(layer); ++next) {
        const auto& b = (*plan)[next];
        gradient_bucket_msg m{stretch, group, replica, next, {}};
        m.gradients.assign(sum->begin() + static_cast<std::ptrdiff_t>(b.first),
                           sum->begin() + static_cast<std::ptrdiff_t>(b.last));
        caf::anon_send(to, std::move(m));
      }
    };
  }

  stage_actor::pointer self_ = nullptr;
  context_ptr context_;
  std::optional<stage_core> core_;
  std::string who_;
  stage_unit* unit_ = nullptr;
  replica_unit* own_ = nullptr;
  connect_stage_msg links_;
  stage_tracer trace_;
  std::shared_ptr<stream_side> on_stream_ = std::make_shared<stream_side>();
  std::shared_ptr<const bucket_plan> buckets_;
};

stage_actor::behavior_type stage_behavior(stage_actor::stateful_pointer<stage_shell> self, context_ptr context,
                                          const stage_place& place, std::vector<tensor> states,
                                          std::shared_ptr<const bucket_plan> buckets) {
  self->state.start(self, std::move(context), place, std::move(states), std::move(buckets));
  const auto take = [self](auto& m) {
    guarded(self->state.context(), self->state.who(), [&] { self->state.take(std::move(m)); });
  };
  return {
      [=](activation_msg& m) { take(m); },
      [=](gradient_msg& m) { take(m); },
      [=](connect_stage_msg& m) { self->state.connect(std::move(m)); },
      [=](labels_msg& m) { take(m); },
      [=](begin_training_msg& m) { take(m); },
      [=](end_after_msg& m) { take(m); },
      [=](begin_evaluation_msg& m) { take(m); },
      [=](weights_msg& m) { take(m); },
      [=](computed_msg& m) { take(m); },
      [=](collect_msg& m) { take(m); },
      [=](const describe_wait_msg&) {
        caf::anon_send(self->state.context().coordinator, wait_description_msg{self->state.describe_wait()});
      },
  };
}

} // namespace

stage_actor spawn_stage(caf::actor_system& system, context_ptr context, const stage_place& place,
                        std::vector<tensor> states, std::shared_ptr<const bucket_plan> buckets) {
  return system.spawn(stage_behavior, std::move(context), place, std::move(states), std::move(buckets));
}

} // namespace penstock::actors
