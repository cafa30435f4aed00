// What any layer promises, tried on every backend: for the test of a layer, beside what is its own.
#pragma once

#include "tests/kernels/backend_suite/closeness.hpp"

namespace penstock::testing {

namespace detail {

// Of the outputs weighted by the output gradients, which is what backward differentiates.
inline double objective(stream& on, layer_call call) {
  const auto factors = std::exchange(call.output_gradients, {});
  const auto outputs = run_layer(on, call).outputs;
  double sum = 0;
  for (std::size_t i = 0; i < factors.size(); ++i)
    for (std::size_t j = 0; j < factors[i].values.size(); ++j)
      sum += static_cast<double>(factors[i].values[j]) * outputs[i].values[j];
  return sum;
}

inline void expect_slopes(stream& on, layer_call call, std::vector<host_tensor> layer_call::*what,
                          const std::vector<host_tensor>& found, double tolerance, const std::string& name) {
  constexpr float step = 1.0F / 64;
  for (std::size_t t = 0; t < (call.*what).size(); ++t) {
    host_tensor slopes{(call.*what)[t].dims, {}};
    if ((call.*what)[t].type != dtype::f32) continue;
    for (std::size_t i = 0; i < (call.*what)[t].values.size(); ++i) {
      float& varied = (call.*what)[t].values[i];
      const float center = varied;
      varied = center + step;
      const double above = objective(on, call);
      varied = center - step;
      const double below = objective(on, call);
      slopes.values.push_back(static_cast<float>((above - below) / (2 * static_cast<double>(step))));
      varied = center;
    }
    expect_close(found.at(t), slopes, tolerance, name + " " + std::to_string(t) + " against differences");
  }
}

} // namespace detail

/// A call like that with values from a seed; give it output gradients and parameters by what the layer says of itself.
inline layer_call random_call(layer_ptr op, std::vector<host_tensor> inputs, unsigned seed = 1) {
  layer_call call{.op = std::move(op), .inputs = std::move(inputs)};
  std::vector<tensor_spec> specs;
  for (const auto& x : call.inputs)
    specs.push_back({x.type, x.dims});
  for (const auto& p : call.op->parameters(specs))
    call.weights.push_back(random_tensor(p.dims, seed++));
  for (const auto& s : call.op->states(specs))
    call.states.push_back({s.dims, std::vector<float>(static_cast<std::size_t>(element_count(s.dims)), s.initial)});
  for (const auto& y : call.op->infer(specs))
    call.output_gradients.push_back(random_tensor(y.dims, seed++));
  return call;
}

inline layer_call random_call(layer_ptr op, const std::vector<shape>& inputs, unsigned seed = 1) {
  std::vector<host_tensor> values;
  for (const auto& dims : inputs)
    values.push_back(random_tensor(dims, seed++));
  return random_call(std::move(op), std::move(values), seed);
}

/// The library has the same bits with one thread and with two, and so with any number that it deals the work to.
inline void expect_same_bits_for_any_threads(const layer_call& call) {
  const auto backends = backends_under_test();
  const auto one = run_layer(*open_stream(backends[1]), call), two = run_layer(*open_stream(backends[2]), call);
  expect_same(two.outputs, one.outputs, "output");
  expect_same(two.input_gradients, one.input_gradients, "input gradient");
  expect_same(two.weight_gradients, one.weight_gradients, "weight gradient");
}

/// Every backend computes what the reference does (the delayed device to the bit), leaves what others hold, repeats to
/// the bit, and has the bits of the whole backward in its two parts.
inline void expect_backends_agree(const layer_call& call, double allowed = 1e-5) {
  const layer_outcome wanted = run_layer(*reference_stream(), call);
  for (const auto& backend : layer_backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto on = open_stream(backend);
    const double tolerance = backend.is_delayed ? 0 : allowed;
    const layer_outcome found = run_layer(*on, call);
    expect_close(found.outputs, wanted.outputs, tolerance, "output");
    expect_close(found.input_gradients, wanted.input_gradients, tolerance, "input gradient");
    expect_close(found.weight_gradients, wanted.weight_gradients, tolerance, "weight gradient");
    expect_close(found.states, wanted.states, tolerance, "state");
    layer_call other = call;
    other.shared_handles = true;
    const layer_outcome shared = run_layer(*on, other);
    expect_same(shared.outputs, found.outputs, "output, with others on the inputs,");
    expect_same(shared.input_gradients, found.input_gradients, "input gradient, with others on the inputs,");
    expect_same(shared.weight_gradients, found.weight_gradients, "weight gradient, with others on the inputs,");
    expect_same(shared.inputs_after, call.inputs, "input that others hold");
    expect_same(shared.output_gradients_after, call.output_gradients, "output gradient that others hold");
    other = call;
    other.split_backward = true;
    const layer_outcome split = run_layer(*on, other);
    expect_same(split.input_gradients, found.input_gradients, "input gradient in two parts");
    expect_same(split.weight_gradients, found.weight_gradients, "weight gradient in two parts");
  }
}

/// The reference's gradients are the slopes of its outputs, of inputs and parameters, element by element: give it few.
inline void expect_gradients_are_slopes(const layer_call& call, double tolerance = 2e-3) {
  const auto on = reference_stream();
  const layer_outcome found = run_layer(*on, call);
  detail::expect_slopes(*on, call, &layer_call::inputs, found.input_gradients, tolerance, "input gradient");
  detail::expect_slopes(*on, call, &layer_call::weights, found.weight_gradients, tolerance, "weight gradient");
}

} // namespace penstock::testing
