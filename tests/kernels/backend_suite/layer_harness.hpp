// Runs one layer on one stream with values from the test, and brings back all that it says.
#pragma once

#include "kernels/layer.hpp"
#include "kernels/stream.hpp"

#include <ostream>

namespace penstock::testing {

/// Plain values of a tensor on the test's side; labels and counters as float too.
struct host_tensor {
  shape dims;
  std::vector<float> values;
  dtype type = dtype::f32; ///< of the tensor on the device: f32 or i64
};

/// Normal values from a seed; no value is nearer to 0 than `gap`.
host_tensor random_tensor(shape dims, unsigned seed, float gap = 0);
/// Whole numbers in [0, below), as i64.
host_tensor random_ids(shape dims, std::int64_t below, unsigned seed);
/// Random values with no two nearer than 1 / 16, so that a maximum stays one under small changes.
host_tensor distinct_tensor(shape dims, unsigned seed);

/// Into the backend's activation layout.
tensor to_device(backend& ops, const host_tensor& x, memory_use use = memory_use::activations);
/// From any layout, in memory that the host reads; a "none" tensor gives no dims and no values.
host_tensor to_host(backend& ops, const tensor& x);
tensor labels_to_device(backend& ops, const std::vector<std::int64_t>& labels);

struct layer_call {
  layer_ptr op;
  std::vector<host_tensor> inputs;
  std::vector<host_tensor> weights;
  std::vector<host_tensor> states;
  std::vector<host_tensor> output_gradients; ///< empty: forward only
  bool fused_relu = false;                   ///< the layer that computes a ReLU too
  phase mode = phase::training;
  random_key random{.seed = 7, .layer = 11, .minibatch = 3, .microbatch = 1};
  bool update_state = true;
  std::vector<bool> need_input_gradient;
  bool need_weight_gradient = true;
  bool split_backward = false; ///< the input's part, then the weights' part
  /// Keep other handles on inputs and gradients, so that nothing may be overwritten.
  bool shared_handles = false;
  std::string name = "layer";
};

struct layer_outcome {
  std::vector<host_tensor> outputs;
  std::vector<host_tensor> input_gradients;
  std::vector<host_tensor> weight_gradients;
  std::vector<host_tensor> states;
  std::vector<host_tensor> inputs_after;           ///< with shared handles
  std::vector<host_tensor> output_gradients_after; ///< with shared handles
  std::size_t saved = 0;
  std::string refusal; ///< what the layer told of its data
};

layer_outcome run_layer(stream& on, const layer_call& call);

/// What a stage of the machine under test would open.
struct backend_under_test {
  std::string name;
  stream_options options;
  bool is_delayed = false; ///< the delayed device: run_layer is what can look at its values
};
inline std::ostream& operator<<(std::ostream& out, const backend_under_test& backend) {
  return out << backend.name;
}
std::unique_ptr<stream> open_stream(const backend_under_test& backend);
/// The reference, and the CPU's library with one and with two threads.
std::vector<backend_under_test> backends_under_test();
/// And the delayed device.
std::vector<backend_under_test> layer_backends_under_test();
std::unique_ptr<stream> reference_stream();

} // namespace penstock::testing
