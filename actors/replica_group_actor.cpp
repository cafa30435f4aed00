// Sums the gradients of a stage's replicas, in replica order.
#include "actors/update_actors.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>

namespace penstock::actors {

/// Completion of the sum.
struct summed_msg {
  std::shared_ptr<gradient_sum_msg> sum;
  std::exception_ptr failure;
};

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::summed_msg)

namespace penstock::actors {

namespace {

class replica_group {
public:
  void start(caf::event_based_actor* self, context_ptr context, int stage, caf::actor optimizer) {
    self_ = self;
    context_ = std::move(context);
    unit_ = &context_->services.parts.stages.at(static_cast<std::size_t>(stage));
    optimizer_ = std::move(optimizer);
    who_ = "replica group of stage " + std::to_string(stage);
  }
  void take(gradient_share_msg share);
  void summed(const summed_msg& m);
  actor_context& context() { return *context_; }
  const std::string& who() const { return who_; }

private:
  struct gathering {
    std::size_t shares = 0;
    std::int64_t minibatches = 0;
    std::vector<std::vector<tensor>> gradients;
  };
  caf::event_based_actor* self_ = nullptr;
  context_ptr context_;
  stage_unit* unit_ = nullptr;
  caf::actor optimizer_;
  std::string who_;
  std::int64_t segment_ = 0;
  std::map<std::int64_t, gathering> open_; // by update of the segment
};

// A replica without a minibatch of its own may reach an update that a drain then cuts off; its share is of no use.
void replica_group::take(gradient_share_msg share) {
  if (share.segment != segment_) open_.clear();
  segment_ = share.segment;
  auto& g = open_[share.group];
  g.gradients.resize(unit_->replicas.size());
  g.gradients[static_cast<std::size_t>(share.replica)] = std::move(share.gradients);
  g.minibatches += share.minibatches;
  if (++g.shares < unit_->replicas.size()) return;
  auto sum = std::make_shared<gradient_sum_msg>(gradient_sum_msg{share.group, g.minibatches, {}});
  if (unit_->replicas.size() == 1) {
    sum->gradients = std::move(g.gradients.front());
    open_.erase(share.group);
    summed({std::move(sum), nullptr});
    return;
  }
  auto all = std::make_shared<std::vector<std::vector<tensor>>>(std::move(g.gradients));
  open_.erase(share.group);
  const auto address = caf::actor_cast<caf::actor>(self_);
  unit_->update_stream().post([sum, all](backend& ops) { sum->gradients = sum_gradients(ops, std::move(*all)); },
                              [sum, address](std::exception_ptr failure) {
                                caf::anon_send(address, summed_msg{sum, failure});
                              });
}

void replica_group::summed(const summed_msg& m) {
  if (m.failure) std::rethrow_exception(m.failure);
  caf::anon_send(optimizer_, std::move(*m.sum));
}

caf::behavior group_behavior(caf::stateful_actor<replica_group>* self, context_ptr context, int stage,
                             caf::actor optimizer) {
  self->state.start(self, std::move(context), stage, std::move(optimizer));
  return {
      [](const begin_segment_msg&) {}, // shares say their segment
      [=](gradient_share_msg& m) {
        guarded(self->state.context(), self->state.who(), [&] { self->state.take(std::move(m)); });
      },
      [=](const summed_msg& m) { guarded(self->state.context(), self->state.who(), [&] { self->state.summed(m); }); },
  };
}

} // namespace

caf::actor spawn_replica_group(caf::actor_system& system, context_ptr context, int stage, caf::actor optimizer) {
  return system.spawn(group_behavior, std::move(context), stage, std::move(optimizer));
}

} // namespace penstock::actors
