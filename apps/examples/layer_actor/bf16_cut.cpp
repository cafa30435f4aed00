// The behaviour of the bf16 cut.
#include "bf16_cut.hpp"

#include "kernels/dtype.hpp"

#include <caf/actor_system.hpp>

namespace layer_actor {

using namespace penstock::actors;
using penstock::tensor;

namespace {

neighbour_actor::behavior_type bf16_cut_behavior(neighbour_actor::pointer self,
                                                 const layer_actor_neighbours& neighbours,
                                                 const std::shared_ptr<cut_counts>& counts,
                                                 const std::shared_ptr<penstock::memory_pool>& pool) {
  return {[=](const activation_msg& received) {
            activation_msg rounded = received; // the handles: other readers keep the bytes as they are
            for (auto& t : rounded.tensors) {
              if (!t.value || t.value.type() != penstock::dtype::f32) continue;
              t.value = through_bf16(*pool, t.value);
              counts->bytes += t.value.elements() * 4;
              counts->saved += t.value.elements() * 2;
            }
            ++counts->messages;
            const auto& to = neighbours.next.of(rounded.key);
            self->send(to, std::move(rounded));
          },
          [=](const gradient_msg& received) {
            ++counts->gradients;
            self->send(neighbours.previous.of(received.key), received);
          }};
}

} // namespace

bf16_cut::bf16_cut(std::string after_layer)
    : after_layer_(std::move(after_layer)), counts_(std::make_shared<cut_counts>()),
      pool_(std::make_shared<penstock::memory_pool>()) {}

neighbour_actor bf16_cut::spawn(caf::actor_system& system, const layer_actor_neighbours& neighbours) const {
  return system.spawn(bf16_cut_behavior, neighbours, counts_, pool_);
}

tensor through_bf16(penstock::memory_pool& pool, const tensor& x) {
  if (x.type() != penstock::dtype::f32) return x;
  // The same layout, so stored elements correspond one to one; padding is zero and stays zero.
  tensor y = tensor::allocate(pool, x.type(), x.dims(), penstock::memory_use::activations, x.format());
  const float* from = x.data<float>();
  float* to = y.data<float>();
  const std::int64_t stored = x.stored_elements(); // asks the layout, so once
  for (std::int64_t i = 0; i < stored; ++i)
    to[i] = penstock::float_from_bf16(penstock::bf16_from_float(from[i]));
  return y;
}

} // namespace layer_actor
