// A stage replica's mailbox: what a handler throws becomes the run's failure.
#include "actors/stage_actor.hpp"

#include "actors/stage_replica.hpp"

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace penstock::actors {

namespace {

stage_actor::behavior_type stage_behavior(stage_actor::stateful_pointer<stage_replica> self, context_ptr context,
                                          int stage, int replica) {
  self->state.start(self, std::move(context), stage, replica);
  const auto take = [self](const auto& m) {
    guarded(self->state.context(), self->state.who(), [&] { self->state.take(m); });
  };
  const auto begin = [self](const auto& m) {
    guarded(self->state.context(), self->state.who(), [&] { self->state.begin(m); });
  };
  return {
      [=](const activation_msg& m) { take(m); },
      [=](const gradient_msg& m) { take(m); },
      [=](const connect_stage_msg& m) { self->state.connect(m); },
      [=](const labels_msg& m) { take(m); },
      [=](const begin_segment_msg& m) { begin(m); },
      [=](const truncate_segment_msg& m) {
        guarded(self->state.context(), self->state.who(), [&] { self->state.truncate(m); });
      },
      [=](const begin_evaluation_msg& m) { begin(m); },
      [=](const weights_msg& m) { take(m); },
      [=](const computed_msg& m) {
        guarded(self->state.context(), self->state.who(), [&] { self->state.completed(m); });
      },
      [=](const describe_wait_msg&) {
        caf::anon_send(self->state.context().coordinator, wait_description_msg{self->state.describe_wait()});
      },
  };
}

} // namespace

stage_actor spawn_stage(caf::actor_system& system, context_ptr context, int stage, int replica) {
  return system.spawn(stage_behavior, std::move(context), stage, replica);
}

} // namespace penstock::actors
