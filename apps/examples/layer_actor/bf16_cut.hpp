// A layer actor: halves what activations carry over one cut, by rounding them to bf16.
#pragma once

#include "actors/layer_actor.hpp"

#include <atomic>
#include <memory>

namespace layer_actor {

/// What crossed the cut so far. Written by the actor, read by anyone.
struct cut_counts {
  std::atomic<std::int64_t> messages{0};  ///< activations; each micro-batch is one
  std::atomic<std::int64_t> gradients{0}; ///< passed on as they are
  std::atomic<std::int64_t> bytes{0};     ///< of the activations, as f32
  std::atomic<std::int64_t> saved{0};     ///< bytes that bf16 would not have sent
};

/// Sits behind the layer of that name. The next stage sees activations that went through bf16 and back, as over a link
/// that carries bf16; gradients pass unchanged.
class bf16_cut : public penstock::actors::layer_actor_factory {
public:
  explicit bf16_cut(std::string after_layer);
  std::string after_layer() const override { return after_layer_; }
  penstock::actors::neighbour_actor spawn(caf::actor_system& system,
                                          const penstock::actors::layer_actor_neighbours& neighbours) const override;
  const cut_counts& counts() const { return *counts_; }

private:
  std::string after_layer_;
  std::shared_ptr<cut_counts> counts_;
};

/// The same values after a round trip through bf16 (nearest even), in memory of the stream's device; other types as
/// they are.
penstock::tensor through_bf16(penstock::backend& ops, const penstock::tensor& x);

} // namespace layer_actor
