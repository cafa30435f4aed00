// Every backward of the reference loops against differences of its forward, on odd shapes.
#include "kernels/layers/layers.hpp"
#include "tests/kernels/backend_suite/closeness.hpp"
#include "tests/kernels/scalars.hpp"

namespace penstock::testing {

namespace {

constexpr float step = 1.0F / 64;

struct difference_case {
  std::string name;
  layer_ptr op;
  std::vector<host_tensor> inputs;
  bool fused_relu = false;
  double tolerance = 1e-3; // of the greatest gradient
};

std::ostream& operator<<(std::ostream& out, const difference_case& one) {
  return out << one.name;
}

std::vector<tensor_spec> specs_of(const std::vector<host_tensor>& inputs) {
  std::vector<tensor_spec> specs;
  for (const host_tensor& x : inputs)
    specs.push_back({dtype::f32, x.dims});
  return specs;
}

layer_call call_of(const difference_case& given) {
  layer_call call{.op = given.op, .inputs = given.inputs, .fused_relu = given.fused_relu};
  const auto specs = specs_of(given.inputs);
  unsigned seed = 100;
  for (const parameter_spec& spec : given.op->parameters(specs))
    call.weights.push_back(random_tensor(spec.dims, ++seed));
  for (const state_spec& spec : given.op->states(specs))
    call.states.push_back(
        {spec.dims, std::vector<float>(static_cast<std::size_t>(element_count(spec.dims)), spec.initial)});
  for (const tensor_spec& spec : given.op->infer(specs))
    call.output_gradients.push_back(random_tensor(spec.dims, ++seed));
  return call;
}

// What backward differentiates: the outputs weighted by the output gradients. `pattern` tells which side of a ReLU's
// kink each output is on.
double objective(stream& on, layer_call call, std::vector<bool>& pattern) {
  const auto factors = std::exchange(call.output_gradients, {});
  const layer_outcome outcome = run_layer(on, call);
  double sum = 0;
  pattern.clear();
  for (std::size_t i = 0; i < factors.size(); ++i)
    for (std::size_t j = 0; j < factors[i].values.size(); ++j) {
      sum += static_cast<double>(factors[i].values[j]) * outcome.outputs[i].values[j];
      pattern.push_back(outcome.outputs[i].values[j] > 0);
    }
  return sum;
}

// Compares every element of `found` with the difference over `varied`, a tensor of `call`.
void check_gradient(stream& on, layer_call& call, host_tensor& varied, const host_tensor& found, double tolerance,
                    const std::string& what) {
  ASSERT_EQ(found.dims, varied.dims) << what;
  std::vector<float> expected, compared;
  std::vector<bool> above_pattern, below_pattern;
  for (std::size_t i = 0; i < varied.values.size(); ++i) {
    const float center = varied.values[i];
    varied.values[i] = center + step;
    const double above = objective(on, call, above_pattern);
    const double width = static_cast<double>(varied.values[i]) - static_cast<double>(center - step);
    varied.values[i] = center - step;
    const double below = objective(on, call, below_pattern);
    varied.values[i] = center;
    if (call.fused_relu && above_pattern != below_pattern) continue; // across the kink there is no derivative
    expected.push_back(static_cast<float>((above - below) / width));
    compared.push_back(found.values[i]);
  }
  EXPECT_GE(4 * expected.size(), varied.values.size()) << what << ": too few elements could be compared";
  EXPECT_LE(relative_distance(compared, expected), tolerance) << what;
}

layer_ptr conv(std::int64_t in, std::int64_t out, std::array<std::int64_t, 2> kernel, conv2d_args args = {},
               bool bias = true) {
  return layers::conv2d({.in_channels = in, .out_channels = out, .kernel = kernel, .args = args, .bias = bias});
}

std::vector<difference_case> convolutions() {
  return {
      {"ConvPlain", conv(2, 3, {3, 3}), {random_tensor({2, 2, 5, 4}, 1)}},
      {"ConvPadded", conv(1, 2, {3, 2}, {.padding = {1, 1}}), {random_tensor({2, 1, 4, 3}, 2)}},
      {"ConvStrided", conv(2, 2, {3, 3}, {.stride = {2, 3}, .padding = {1, 2}}), {random_tensor({1, 2, 6, 7}, 3)}},
      {"ConvDilated", conv(2, 2, {2, 3}, {.padding = {0, 2}, .dilation = {3, 2}}), {random_tensor({1, 2, 6, 5}, 4)}},
      {"ConvGrouped", conv(4, 6, {2, 2}, {.groups = 2}, false), {random_tensor({1, 4, 4, 3}, 5)}},
      {"ConvDepthwise",
       conv(3, 6, {3, 3}, {.stride = {2, 1}, .padding = {1, 1}, .groups = 3}),
       {random_tensor({2, 3, 5, 3}, 6)}},
      {"ConvAll",
       conv(4, 2, {2, 3}, {.stride = {2, 2}, .padding = {1, 2}, .dilation = {2, 1}, .groups = 2}),
       {random_tensor({1, 4, 5, 5}, 7)}},
      {"ConvRelu", conv(2, 3, {3, 3}, {.padding = {1, 1}}), {random_tensor({1, 2, 4, 4}, 8)}, true},
  };
}

std::vector<difference_case> poolings() {
  const auto pool = [](pool2d_args args) { return layers::pool2d(args); };
  std::vector<difference_case> cases;
  for (const pool_kind kind : {pool_kind::max, pool_kind::average}) {
    const std::string name = kind == pool_kind::max ? "Max" : "Average";
    cases.push_back({name + "Halves", pool({.kind = kind}), {distinct_tensor({2, 2, 5, 4}, 9)}});
    cases.push_back({name + "Overlaps",
                     pool({.kind = kind, .kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}}),
                     {distinct_tensor({1, 2, 5, 5}, 10)}});
    cases.push_back({name + "Ceil",
                     pool({.kind = kind, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 0}, .ceil_mode = true}),
                     {distinct_tensor({1, 2, 6, 6}, 11)}});
    cases.push_back({name + "CeilValidOnly",
                     pool({.kind = kind,
                           .kernel = {3, 3},
                           .stride = {2, 2},
                           .padding = {1, 1},
                           .ceil_mode = true,
                           .count_include_pad = false}),
                     {distinct_tensor({1, 1, 6, 7}, 12)}});
  }
  cases.push_back({"AdaptiveUneven", layers::adaptive_average_pool2d({3, 2}), {random_tensor({2, 2, 7, 5}, 13)}});
  cases.push_back({"AdaptiveLarger", layers::adaptive_average_pool2d({5, 7}), {random_tensor({1, 2, 3, 4}, 14)}});
  return cases;
}

std::vector<difference_case> others() {
  return {
      {"Linear", layers::linear({.in_features = 5, .out_features = 4}), {random_tensor({3, 5}, 15)}},
      {"LinearNoBiasRelu",
       layers::linear({.in_features = 5, .out_features = 7, .bias = false}),
       {random_tensor({3, 5}, 16)},
       true},
      {"BatchNorm", layers::batch_norm2d(3), {random_tensor({3, 3, 2, 3}, 17)}, false, 3e-3},
      {"BatchNormRelu", layers::batch_norm2d(2), {random_tensor({2, 2, 3, 3}, 18)}, true, 3e-3},
      {"Relu", layers::relu(), {random_tensor({2, 3, 3, 2}, 19, 0.1F)}},
      {"FlattenImages", layers::flatten(), {random_tensor({2, 3, 2, 2}, 20)}},
      {"FlattenVolume", layers::flatten(), {random_tensor({2, 3, 2, 2, 2}, 21)}},
      {"Dropout", layers::dropout(0.4F), {random_tensor({3, 2, 3, 3}, 22)}},
      {"DropoutZero", layers::dropout(0), {random_tensor({3, 4}, 23)}},
      {"Add", layers::add(), {random_tensor({2, 3, 2, 2}, 24), random_tensor({2, 3, 2, 2}, 25)}},
      {"AddRelu", layers::add(), {random_tensor({2, 3}, 26), random_tensor({2, 3}, 27)}, true},
      {"Concat",
       layers::concat(),
       {random_tensor({2, 1, 2, 3}, 28), random_tensor({2, 3, 2, 3}, 29), random_tensor({2, 2, 2, 3}, 30)}},
  };
}

class BackwardOfTheReference : public ::testing::TestWithParam<difference_case> {};

TEST_P(BackwardOfTheReference, EqualsTheDifferenceOfItsForward) {
  const auto on = reference_stream();
  layer_call call = call_of(GetParam());
  const layer_outcome found = run_layer(*on, call);
  ASSERT_EQ(found.input_gradients.size(), call.inputs.size());
  ASSERT_EQ(found.weight_gradients.size(), call.weights.size());
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    check_gradient(*on, call, call.inputs[i], found.input_gradients[i], GetParam().tolerance,
                   "input " + std::to_string(i));
  for (std::size_t i = 0; i < call.weights.size(); ++i)
    check_gradient(*on, call, call.weights[i], found.weight_gradients[i], GetParam().tolerance,
                   "weight " + std::to_string(i));
}

const auto case_name = [](const auto& which) { return which.param.name; };
INSTANTIATE_TEST_SUITE_P(Convolutions, BackwardOfTheReference, ::testing::ValuesIn(convolutions()), case_name);
INSTANTIATE_TEST_SUITE_P(Poolings, BackwardOfTheReference, ::testing::ValuesIn(poolings()), case_name);
INSTANTIATE_TEST_SUITE_P(Others, BackwardOfTheReference, ::testing::ValuesIn(others()), case_name);

TEST(BackwardOfTheLoss, EqualsTheDifferenceOfItsForward) {
  const auto on = reference_stream();
  on->run([](backend& ops) {
    for (const float smoothing : {0.0F, 0.2F}) {
      const classifier_head head(smoothing);
      const float scale = 0.25F;
      host_tensor logits = random_tensor({3, 6}, 31);
      const tensor labels = labels_to_device(ops, {5, 0, 2});
      const auto loss = [&] { return metrics_of(head.forward(ops, to_device(ops, logits), labels)).loss_sum * scale; };
      const host_tensor found =
          to_host(ops, head.backward(ops, head.forward(ops, to_device(ops, logits), labels), scale));
      std::vector<float> expected;
      for (float& value : logits.values) {
        const float center = value;
        value = center + step;
        const double above = loss();
        value = center - step;
        const double below = loss();
        value = center;
        expected.push_back(static_cast<float>((above - below) / (2 * step)));
      }
      EXPECT_LE(relative_distance(found.values, expected), 1e-3);
    }
  });
}

} // namespace

} // namespace penstock::testing
