// Carries out what a worker's core decides: onto the stream, to the neighbours, into the trace.
#include "actors/stage/worker_actor.hpp"

#include "actors/ranks/wire.hpp"
#include "actors/stage/stage_compute.hpp"
#include "actors/stage/stage_copies.hpp"
#include "actors/stage/stage_tracer.hpp"

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace penstock::actors {

namespace {

/// What work on the stream needs of its replica; it may outlive the actor when a run fails.
struct stream_side {
  context_ptr context;
  stage_place place;
  stage_unit* unit = nullptr;
  replica_unit* own = nullptr;
  stage_tracer trace;

  // Every handle that was read through is gone before the completion is sent.
  void compute(backend& ops, stage_work& job, const layer_listener& layer_done) {
    adopt_layouts(ops, job.inputs);
    compute_job(ops, context->services.built, *unit, *own, job, layer_done);
    job.drop_inputs();
  }
  // When the device has done it.
  void settle(stage_work& job) {
    job.tells.settle();
    require_finite_loss(place, job);
    trace.computed(job);
  }
};

// An answer on its way through the stream.
struct collected {
  collected_msg message;
  outcome tells;
};

// What the actor keeps of one of its stages.
struct hosted {
  int stage = 0;
  stage_unit* unit = nullptr;
  replica_unit* own = nullptr;
  connect_stage_msg links;
  stage_tracer trace;
  std::shared_ptr<stream_side> on_stream;
  std::shared_ptr<const bucket_cuts> buckets;
};

class worker_shell {
public:
  void start(worker_actor::pointer self, context_ptr context, worker_place place, std::vector<hosted_stage> stages) {
    self_ = self;
    context_ = std::move(context);
    who_ = name_of(place);
    std::vector<std::vector<tensor>> states;
    std::vector<std::vector<tensor>> carried;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      states.push_back(std::move(stages[i].states));
      carried.push_back(std::move(stages[i].carried));
      add_stage(place.stages[i], std::move(stages[i].buckets));
    }
    core_.emplace(std::move(place), std::move(states), std::move(carried));
  }

  void connect(connect_stage_msg m) {
    auto& links = at(m.stage).links;
    links = std::move(m);
  }
  void take(activation_msg m) {
    received(m.key, total_bytes(m.tensors), m.key.stage - 1, &stage_core::activations_held);
    carry_out(core_->on(std::move(m)));
  }
  void take(gradient_msg m) {
    received(m.key, total_bytes(m.tensors), m.key.stage + 1, &stage_core::gradients_held);
    carry_out(core_->on(std::move(m)));
  }
  void take(begin_training_msg m) {
    for (auto& h : hosted_)
      h.trace.begin_stretch(m.run->number);
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
    for (const auto& h : hosted_) {
      auto answer = std::make_shared<collected>(collected{{h.stage, {}, {}}, {}});
      h.own->work->post(
          [answer, m, unit = h.unit, replica = core_->place().replica, states = core_->stage(h.stage).states(),
           carried = core_->stage(h.stage).carried()](backend& ops) {
            answer->message.copy = copy_states(ops, *unit, replica, states, m.what, m.after, *m.pool, answer->tells);
            if (is_copied(m.what, copy_of::carried))
              answer->message.copy.carried = carried->copy(ops, *m.pool, replica == 0);
            answer->tells.fetch(ops);
          },
          [answer, reply_to = m.reply_to, context = context_, who = who_](std::exception_ptr failure) {
            guarded(*context, who, [&] {
              if (failure) std::rethrow_exception(failure);
              answer->tells.settle();
              caf::anon_send(reply_to, std::move(answer->message));
            });
          });
    }
  }
  std::string describe_wait() const { return core_->describe_wait(); }
  actor_context& context() { return *context_; }
  const std::string& who() const { return who_; }

private:
  void add_stage(const stage_place& place, std::shared_ptr<const bucket_cuts> buckets) {
    auto& h = hosted_.emplace_back();
    h.stage = place.stage;
    h.unit = &context_->services.built.stages.at(static_cast<std::size_t>(place.stage));
    h.own = &h.unit->replicas.at(static_cast<std::size_t>(place.replica));
    h.trace = stage_tracer(context_->services.trace, place.stage, place.replica);
    h.buckets = std::move(buckets);
    h.on_stream = std::make_shared<stream_side>();
    h.on_stream->context = context_;
    h.on_stream->place = place;
    h.on_stream->unit = h.unit;
    h.on_stream->own = h.own;
    h.on_stream->trace = h.trace;
  }

  // Its core refuses messages for a stage that it does not host.
  hosted& at(int stage) {
    const auto& all = core_->place().stages;
    for (std::size_t i = 0; i + 1 < all.size(); ++i)
      if (all[i].stage == stage) return hosted_[i];
    return hosted_.back();
  }

  void received(const message_key& key, std::int64_t bytes, int peer, std::size_t (stage_core::*held)() const) {
    auto& trace = at(key.stage).trace;
    if (trace.is_on()) trace.received(key, bytes, peer, (core_->stage(key.stage).*held)());
  }

  void carry_out(worker_effects effects) {
    for (auto& e : effects)
      std::visit([this](auto& one) { carry_out(one); }, e);
    if (!hosted_.front().trace.is_on()) return;
    const auto blocked = core_->waits_for();
    if (!blocked) return;
    auto& h = at(blocked->what.stage);
    if (waiting_ != &h) wait_ends();
    waiting_ = &h;
    h.trace.wait_begins(*blocked, core_->first_minibatch(), h.unit->replicas.size() > 1);
  }
  void wait_ends() {
    if (waiting_ != nullptr) waiting_->trace.wait_ends();
    waiting_ = nullptr;
  }

  void carry_out(compute& e) {
    wait_ends();
    const auto& h = at(e.job->key.stage);
    context_->stage = h.stage;
    context_->minibatch = e.job->what == stage_work::kind::evaluate ? -1 : e.job->key.minibatch;
    const auto address = caf::actor_cast<worker_actor>(self_);
    auto layer_done = e.job->completes_group >= 0 ? bucket_sender(h, *e.job) : layer_listener();
    work_line::post(
        *h.own->work, h.own->line,
        [on_stream = h.on_stream, raw = e.job.get(), done = std::move(layer_done)](backend& ops) {
          on_stream->compute(ops, *raw, done);
        },
        [on_stream = h.on_stream, raw = e.job.get()] { on_stream->settle(*raw); },
        [job = e.job, address](std::exception_ptr failure) {
          caf::anon_send(address, computed_msg{job, std::move(failure)});
        });
  }
  void carry_out(send_activation& e) {
    auto& h = at(e.message.key.stage - 1);
    send(h, h.links.next, std::move(e.message));
  }
  void carry_out(send_gradient& e) {
    auto& h = at(e.message.key.stage + 1);
    send(h, h.links.previous, std::move(e.message));
  }
  void carry_out(send_loss& e) { caf::anon_send(hosted_.back().links.metrics, std::move(e.message)); }
  void carry_out(return_credit& e) {
    const auto& links = hosted_.front().links;
    const auto replica = static_cast<std::size_t>(links.deal_first(e.message.key));
    caf::anon_send(links.sources.at(replica), std::move(e.message));
  }
  void carry_out(give_gradients& e) {
    wait_ends();
    caf::anon_send(at(e.stage).links.optimizer, std::move(e.share));
  }
  void carry_out(part_is_done&) {
    wait_ends();
    caf::anon_send(context_->coordinator, part_done_msg{});
  }

  template <class Message>
  void send(hosted& from, const neighbour_side& side, Message m) {
    from.trace.sent(m.key, total_bytes(m.tensors), m.key.stage);
    const auto& to = side.of(m.key);
    caf::anon_send(to, std::move(m));
  }

  // Hands each bucket over as soon as the layers that it belongs to are done.
  layer_listener bucket_sender(const hosted& h, const stage_work& job) const {
    auto send = [next = std::size_t{0}, group = job.completes_group, stretch = job.key.stretch, sum = job.gradients,
                 plan = h.buckets, layers = h.unit->layers, to = h.links.optimizer,
                 replica = core_->place().replica](int layer) mutable {
      for (; next < plan->size() && (*plan)[next].first >= layers->first_parameter(layer); ++next) {
        const auto& b = (*plan)[next];
        gradient_bucket_msg m{stretch, group, replica, next, {}};
        m.gradients.assign(sum->begin() + static_cast<std::ptrdiff_t>(b.first),
                           sum->begin() + static_cast<std::ptrdiff_t>(b.last));
        caf::anon_send(to, std::move(m));
      }
    };
    return std::make_shared<const std::function<void(int)>>(std::move(send));
  }

  worker_actor::pointer self_ = nullptr;
  context_ptr context_;
  std::optional<worker_core> core_;
  std::string who_;
  std::vector<hosted> hosted_; // as the core's place has them
  hosted* waiting_ = nullptr;  // whose tracer has a wait open
};

worker_actor::behavior_type worker_behavior(worker_actor::stateful_pointer<worker_shell> self, context_ptr context,
                                            worker_place place, std::vector<hosted_stage> stages) {
  self->state.start(self, std::move(context), std::move(place), std::move(stages));
  const auto take = [self](auto& m) {
    guarded(self->state.context(), self->state.who(), [&] { self->state.take(std::move(m)); });
  };
  return {
      [=](activation_msg& m) { take(m); },
      [=](gradient_msg& m) { take(m); },
      [=](connect_stage_msg& m) { self->state.connect(std::move(m)); },
      [=](inputs_msg& m) { take(m); },
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

worker_actor spawn_worker(caf::actor_system& system, context_ptr context, worker_place place,
                          std::vector<hosted_stage> stages) {
  return system.spawn(worker_behavior, std::move(context), std::move(place), std::move(stages));
}

} // namespace penstock::actors
