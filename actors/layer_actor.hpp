// A user's own actor between two stages: it sees every activation and gradient that crosses the cut.
#pragma once

#include "actors/messages.hpp"
#include "kernels/stream.hpp"

#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace penstock::actors {

/// What a stage accepts from its neighbours; a layer actor accepts the same.
using neighbour_actor = caf::typed_actor<caf::reacts_to<activation_msg>, caf::reacts_to<gradient_msg>>;

/// The replicas on one side of a cut; `of` picks the one that a message belongs to.
struct neighbour_side {
  std::vector<neighbour_actor> replicas;
  std::function<int(const message_key&)> deal; ///< index into replicas
  const neighbour_actor& of(const message_key& key) const { return replicas.at(static_cast<std::size_t>(deal(key))); }
};

struct layer_actor_neighbours {
  neighbour_side previous;      ///< gradients go there
  neighbour_side next;          ///< activations go there
  std::shared_ptr<stream> work; ///< the actor's own, on a device of the stages' kind: it computes there
};

/// Makes the layer actor of one cut. A layer actor must pass on every message it gets, once, with the same key (it may
/// change the tensors), or the stall watchdog ends the run. It must not modify a tensor it does not own: make a new
/// one. Bytes are read and written in work on its stream (backend::on_host), since they may be a device's.
class layer_actor_factory {
public:
  virtual ~layer_actor_factory() = default;
  /// The layer after which it sits: it takes the cut that follows this layer, and there must be a stage border there.
  virtual std::string after_layer() const = 0;
  virtual neighbour_actor spawn(caf::actor_system& system, const layer_actor_neighbours& neighbours) const = 0;
};

} // namespace penstock::actors
