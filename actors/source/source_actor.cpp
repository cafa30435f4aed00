// Carries out what a source's core decides: requests to the loaders, micro-batches to the stages.
#include "actors/source/source_actor.hpp"

#include "actors/source/source_tracer.hpp"
#include "actors/stage/inbox.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

namespace penstock::actors {

namespace {

class source_shell {
public:
  void start(context_ptr context, source_place place) {
    context_ = std::move(context);
    core_.emplace(std::move(place));
    const auto& s = context_->services;
    trace_ = source_tracer(s.trace);
    training_loader_ = std::make_shared<microbatch_loader>(s.inputs.net, *s.inputs.train, training_batches(s.options),
                                                           s.plan.microbatches);
  }
  void connect(connect_source_msg m) { links_ = std::move(m); }
  void take(const begin_training_msg& m) {
    loader_ = training_loader_;
    trace_.wait_ends();
    carry_out(core_->on(m));
  }
  void take(evaluate_data_msg m) {
    loader_ = std::move(m.loader);
    trace_.wait_ends();
    carry_out(core_->on(m.what));
  }
  void take(const end_after_msg& m) { carry_out(core_->on(m)); }
  void take(const pause_source_msg&) { carry_out(core_->pause()); }
  void take(const credit_msg& m) {
    ++context_->progress;
    carry_out(core_->on(m));
  }
  void take(load_reply_msg m) {
    ++context_->progress;
    carry_out(core_->loaded(m.key, std::move(m.data)));
  }
  std::string describe() const { return core_->describe(); }
  actor_context& context() { return *context_; }

private:
  void carry_out(source_effects effects) {
    for (auto& e : effects)
      std::visit([this](auto& one) { carry_out_one(one); }, e);
    const auto waits_for = core_->waits_for();
    if (waits_for == source_core::wait::nothing)
      trace_.wait_ends();
    else
      trace_.wait_begins(core_->next_key(),
                         waits_for == source_core::wait::data ? wait_reason::no_input : wait_reason::no_credit);
  }
  void carry_out_one(const load_microbatch& e) {
    caf::anon_send(links_.loaders[next_loader_++ % links_.loaders.size()], load_request_msg{loader_, e.key});
  }
  void carry_out_one(admit_microbatch& e) {
    trace_.wait_ends();
    const auto& key = e.activation.key;
    trace_.admitted(key, total_bytes(e.activation.tensors));
    for (auto& m : e.fed) {
      const auto& replicas = links_.readers.at(m.key.stage);
      const auto replica = static_cast<std::size_t>(links_.deal(m.key.stage, m.key));
      caf::anon_send(replicas.at(replica), std::move(m));
    }
    const auto& first = links_.first.of(key);
    caf::anon_send(first, std::move(e.activation));
  }
  void carry_out_one(const admitted_so_far& e) {
    trace_.wait_ends();
    caf::anon_send(context_->coordinator, admitted_msg{e.stretch, e.minibatches});
  }
  void carry_out_one(const all_is_admitted&) { caf::anon_send(context_->coordinator, part_done_msg{}); }

  context_ptr context_;
  std::optional<source_core> core_;
  connect_source_msg links_;
  std::shared_ptr<microbatch_loader> training_loader_;
  std::shared_ptr<microbatch_loader> loader_; // the one in use
  std::size_t next_loader_ = 0;
  source_tracer trace_;
};

caf::behavior source_behavior(caf::stateful_actor<source_shell>* self, context_ptr context, source_place place) {
  self->state.start(std::move(context), std::move(place));
  const auto take = [self](auto& m) {
    guarded(self->state.context(), "the source", [&] { self->state.take(std::move(m)); });
  };
  return {
      [=](connect_source_msg& m) { self->state.connect(std::move(m)); },
      [=](begin_training_msg& m) { take(m); },
      [=](evaluate_data_msg& m) { take(m); },
      [=](end_after_msg& m) { take(m); },
      [=](pause_source_msg& m) { take(m); },
      [=](credit_msg& m) { take(m); },
      [=](load_reply_msg& m) { take(m); },
      [=](const describe_wait_msg&) {
        caf::anon_send(self->state.context().coordinator, wait_description_msg{self->state.describe()});
      },
  };
}

caf::behavior loader_behavior(caf::event_based_actor*, context_ptr context, caf::actor source_handle) {
  return {[=](const load_request_msg& m) {
    guarded(*context, "a loader", [&] {
      caf::anon_send(source_handle, load_reply_msg{m.key, m.loader->load(m.key.minibatch, m.key.microbatch)});
    });
  }};
}

} // namespace

caf::actor spawn_source(caf::actor_system& system, context_ptr context, source_place place) {
  return system.spawn(source_behavior, std::move(context), std::move(place));
}

caf::actor spawn_loader(caf::actor_system& system, context_ptr context, const caf::actor& source_handle) {
  return system.spawn<caf::detached>(loader_behavior, std::move(context), source_handle);
}

} // namespace penstock::actors
