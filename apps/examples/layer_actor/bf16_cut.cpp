// The behaviour of the bf16 cut.
#include "bf16_cut.hpp"

#include "kernels/backend.hpp"
#include "kernels/dtype.hpp"

#include <caf/actor_system.hpp>

namespace layer_actor {

using namespace penstock::actors;
using penstock::tensor;

namespace {

neighbour_actor::behavior_type bf16_cut_behavior(neighbour_actor::pointer self,
                                                 const layer_actor_neighbours& neighbours,
                                                 const std::shared_ptr<cut_counts>& counts) {
  return {[=](const activation_msg& received) {
            activation_msg rounded = received; // the handles: other readers keep the bytes as they are
            // On a stream of this actor alone, so nobody's work is waited for but its own.
            neighbours.work->run([&](penstock::backend& ops) {
              for (auto& t : rounded.tensors)
                if (t.value) t.value = through_bf16(ops, t.value);
            });
            for (const auto& t : rounded.tensors) {
              if (!t.value || t.value.type() != penstock::dtype::f32) continue;
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
    : after_layer_(std::move(after_layer)), counts_(std::make_shared<cut_counts>()) {}

neighbour_actor bf16_cut::spawn(caf::actor_system& system, const layer_actor_neighbours& neighbours) const {
  return system.spawn(bf16_cut_behavior, neighbours, counts_);
}

tensor through_bf16(penstock::backend& ops, const tensor& given) {
  if (given.type() != penstock::dtype::f32) return given;
  const tensor x = ops.from_host(given, penstock::memory_use::activations);
  // The same layout, so stored elements correspond one to one; padding is zero and stays zero.
  tensor y = ops.allocate(x.type(), x.dims(), penstock::memory_use::activations, x.format());
  ops.on_host({x}, {y}, [](std::span<const tensor> in, std::span<const tensor> out) {
    const float* from = in[0].data<float>();
    float* to = out[0].data<float>();
    const std::int64_t stored = in[0].stored_elements(); // asks the layout, so once
    for (std::int64_t i = 0; i < stored; ++i)
      to[i] = penstock::float_from_bf16(penstock::bf16_from_float(from[i]));
  });
  return y;
}

} // namespace layer_actor
