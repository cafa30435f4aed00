// Whose bytes are alive, layer by layer, while a stage runs one micro-batch.
#pragma once

#include "kernels/segment.hpp"
#include "planner/profile/profile.hpp"

#include <map>

namespace penstock::actors {

/// Watches one forward and one backward of a whole model. A buffer that several layers keep is charged once: to the
/// layer that put it out, or else to the first that keeps it; the micro-batch's own inputs to nobody.
class byte_counter {
public:
  /// `layers` is the whole model; `pool` the replica's, in which what is alive now (weights, optimizer state) is taken
  /// as standing; `weight_bytes` per layer, as stored.
  byte_counter(const segment& layers, allocator& pool, std::span<const tensor> inputs,
               std::span<const double> weight_bytes);
  void observe(const layer_observation& o);
  /// Fills the bytes of every layer.
  void write(std::vector<planner::layer_cost>& costs) const;

private:
  struct kept_buffer {
    int owner = 0; ///< the layer it is charged to
    std::int64_t bytes = 0;
  };
  void observe_forward(const layer_observation& o);
  void observe_backward(const layer_observation& o);
  void note_output(value_id id, const tensor& t);
  int owner_of(const tensor& t, int layer);

  const segment& layers_;
  const model& net_;
  allocator& pool_;
  std::vector<const void*> inputs_;
  std::int64_t standing_ = 0;
  std::vector<std::int64_t> gradients_;     ///< per layer: of the weights of it and all after it
  std::vector<const void*> output_buffers_; ///< per value of the model
  std::map<const void*, kept_buffer> kept_;
  std::vector<bool> is_kept_;                              ///< per value: some layer keeps it
  std::vector<std::int64_t> output_bytes_;                 ///< per layer
  std::vector<std::int64_t> forward_peak_, backward_peak_; ///< per layer: beyond what stood, and weight gradients
};

} // namespace penstock::actors
