// The path of a layer call through a stream: values in, forward, backward, values out.
#include "tests/kernels/backend_suite/layer_harness.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/relu.hpp"
#include "kernels/memory_pool.hpp"
#include "kernels/outcome.hpp"
#include "tests/support/delayed/delayed_device.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace penstock::testing {

namespace {

std::size_t count_of(const shape& dims) {
  return static_cast<std::size_t>(element_count(dims));
}

std::vector<tensor> activations(backend& ops, const std::vector<host_tensor>& values) {
  std::vector<tensor> result;
  for (const host_tensor& x : values)
    result.push_back(to_device(ops, x));
  return result;
}

memory_pool& host_memory() {
  static memory_pool all;
  return all;
}

host_tensor values_of(const tensor& x) {
  if (!x) return {};
  if (x.type() == dtype::i64) {
    const auto* counts = x.data<std::int64_t>();
    return {x.dims(), std::vector<float>(counts, counts + x.elements()), dtype::i64};
  }
  return {x.dims(), std::vector<float>(x.data<float>(), x.data<float>() + x.elements())};
}

// What a layer says, whose bytes are there when the work is complete.
class later {
public:
  void values_of(backend& ops, const std::vector<tensor>& tensors, std::vector<host_tensor> layer_outcome::*where) {
    std::vector<tensor> copies;
    for (const tensor& x : tensors)
      copies.push_back(x ? ops.to_host(x, host_memory()) : x);
    copies_.emplace_back(where, std::move(copies));
  }
  void settle(layer_outcome& outcome) const {
    for (const auto& [where, copies] : copies_)
      for (const tensor& x : copies)
        (outcome.*where).push_back(testing::values_of(x));
  }

private:
  std::vector<std::pair<std::vector<host_tensor> layer_outcome::*, std::vector<tensor>>> copies_;
};

std::vector<tensor_spec> specs_of(const std::vector<host_tensor>& inputs) {
  std::vector<tensor_spec> specs;
  for (const host_tensor& x : inputs)
    specs.push_back({x.type, x.dims});
  return specs;
}

tensor plain_counts(backend& ops, const shape& dims, const auto& counts, memory_use use);

tensor plain(backend& ops, const host_tensor& x, memory_use use) {
  if (x.type == dtype::i64) return plain_counts(ops, x.dims, x.values, use);
  tensor result = tensor::allocate(host_memory(), dtype::f32, x.dims, use);
  std::copy(x.values.begin(), x.values.end(), result.data<float>());
  return ops.from_host(result, use);
}

tensor plain_counts(backend& ops, const shape& dims, const auto& counts, memory_use use) {
  tensor result = tensor::allocate(host_memory(), dtype::i64, dims, use);
  std::copy(counts.begin(), counts.end(), result.data<std::int64_t>());
  return ops.from_host(result, use);
}

std::vector<tensor> formatted_weights(backend& ops, const layer_call& call) {
  const auto specs = specs_of(call.inputs);
  std::vector<tensor> result;
  for (std::size_t i = 0; i < call.weights.size(); ++i)
    result.push_back(ops.reorder(plain(ops, call.weights[i], memory_use::scratch),
                                 call.op->parameter_format(ops, i, specs), memory_use::weights));
  return result;
}

std::vector<tensor> plain_states(backend& ops, const layer_call& call) {
  const auto specs = call.op->states(specs_of(call.inputs));
  std::vector<tensor> result;
  for (std::size_t i = 0; i < call.states.size(); ++i) {
    if (specs.at(i).type == dtype::f32) {
      result.push_back(plain(ops, call.states[i], memory_use::weights));
    } else {
      result.push_back(plain_counts(ops, call.states[i].dims, call.states[i].values, memory_use::weights));
    }
  }
  return result;
}

backward_result backward_of(const layer_call& call, run_context& context, std::vector<tensor>& gradients,
                            std::span<const tensor> weights, std::vector<tensor>& saved) {
  if (!call.split_backward) return call.op->backward(context, gradients, weights, saved);
  auto first = call.op->backward_input(context, gradients, weights, saved);
  saved.clear(); // the weights' part must do with what it kept
  gradients.clear();
  return {std::move(first.input_gradients), call.op->backward_weight(context, weights, first.kept)};
}

void run_on(backend& ops, layer_call call, layer_outcome& outcome, penstock::outcome& tells, later& values) {
  if (call.fused_relu) call.op = call.op->try_fuse(*layers::relu());
  check(call.op != nullptr, "a layer computes no ReLU within itself");
  std::vector<tensor> inputs = activations(ops, call.inputs);
  std::vector<tensor> weights = formatted_weights(ops, call);
  std::vector<tensor> states = plain_states(ops, call);
  std::vector<tensor> gradients = activations(ops, call.output_gradients);
  std::vector<tensor> kept_inputs, kept_gradients;
  if (call.shared_handles) {
    kept_inputs = inputs;
    kept_gradients = gradients;
  }
  run_context context{.ops = ops,
                      .mode = call.mode,
                      .random = call.random,
                      .state = states,
                      .update_state = call.update_state,
                      .need_input_gradient = call.need_input_gradient,
                      .need_weight_gradient = call.need_weight_gradient,
                      .name = call.name,
                      .tells = &tells};
  forward_result forward = call.op->forward(context, inputs, weights);
  inputs.clear();
  values.values_of(ops, forward.outputs, &layer_outcome::outputs);
  values.values_of(ops, states, &layer_outcome::states);
  outcome.saved = forward.saved.size();
  forward.outputs.clear();
  if (!gradients.empty()) {
    const backward_result backward = backward_of(call, context, gradients, weights, forward.saved);
    values.values_of(ops, backward.input_gradients, &layer_outcome::input_gradients);
    values.values_of(ops, backward.weight_gradients, &layer_outcome::weight_gradients);
  }
  values.values_of(ops, kept_inputs, &layer_outcome::inputs_after);
  values.values_of(ops, kept_gradients, &layer_outcome::output_gradients_after);
  tells.fetch(ops);
}

} // namespace

host_tensor random_tensor(shape dims, unsigned seed, float gap) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  host_tensor result{dims, std::vector<float>(count_of(dims))};
  for (float& value : result.values) {
    value = normal(generator);
    value += std::copysign(gap, value);
  }
  return result;
}

host_tensor random_ids(shape dims, std::int64_t below, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<std::int64_t> id(0, below - 1);
  host_tensor result{dims, std::vector<float>(count_of(dims)), dtype::i64};
  for (float& value : result.values)
    value = static_cast<float>(id(generator));
  return result;
}

host_tensor distinct_tensor(shape dims, unsigned seed) {
  std::mt19937 generator(seed);
  host_tensor result{dims, std::vector<float>(count_of(dims))};
  std::iota(result.values.begin(), result.values.end(), -static_cast<float>(result.values.size() / 2));
  std::shuffle(result.values.begin(), result.values.end(), generator);
  for (float& value : result.values)
    value /= 16;
  return result;
}

tensor to_device(backend& ops, const host_tensor& x, memory_use use) {
  tensor values = plain(ops, x, use);
  return x.dims.size() == 4 ? ops.reorder(values, ops.activation_format(x.dims), use) : values;
}

host_tensor to_host(backend& ops, const tensor& x) {
  return values_of(x && x.type() == dtype::f32 ? ops.to_plain(x) : x);
}

tensor labels_to_device(backend& ops, const std::vector<std::int64_t>& labels) {
  return plain_counts(ops, {static_cast<std::int64_t>(labels.size())}, labels, memory_use::activations);
}

layer_outcome run_layer(stream& on, const layer_call& call) {
  layer_outcome outcome;
  penstock::outcome tells;
  later values;
  on.run([&](backend& ops) { run_on(ops, call, outcome, tells, values); });
  values.settle(outcome);
  try {
    tells.settle();
  } catch (const error& refused) {
    outcome.refusal = refused.what();
  }
  return outcome;
}

std::unique_ptr<stream> open_stream(const backend_under_test& backend) {
  return (backend.is_delayed ? open_delayed_device() : open_device({}))->create_stream(backend.options);
}

std::vector<backend_under_test> backends_under_test() {
  return {{"Reference", {.name = "reference", .reference = true}},
          {"CpuOneThread", {.name = "cpu", .threads = 1}},
          {"CpuTwoThreads", {.name = "cpu", .threads = 2}}};
}

std::vector<backend_under_test> layer_backends_under_test() {
  auto all = backends_under_test();
  all.push_back({"Delayed", {.name = "delayed"}, true});
  return all;
}

std::unique_ptr<stream> reference_stream() {
  return open_stream(backends_under_test().front());
}

} // namespace penstock::testing
