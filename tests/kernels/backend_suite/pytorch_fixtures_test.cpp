// Every layer, loss and optimizer of every backend against PyTorch in float64.
#include "tests/kernels/backend_suite/closeness.hpp"
#include "tests/kernels/backend_suite/fixture_file.hpp"
#include "tests/kernels/scalars.hpp"

namespace penstock::testing {

namespace {

constexpr double tolerance = 1e-5;

using layer_parameter = std::tuple<backend_under_test, layer_fixture>;
class LayerAgainstPyTorch : public ::testing::TestWithParam<layer_parameter> {};

TEST_P(LayerAgainstPyTorch, AgreesInOutputsGradientsAndState) {
  const auto& [backend, fixture] = GetParam();
  const auto on = open_stream(backend);
  const layer_outcome found = run_layer(*on, fixture.call);
  expect_close(found.outputs, fixture.expected.outputs, tolerance, "output");
  expect_close(found.input_gradients, fixture.expected.input_gradients, tolerance, "input gradient");
  expect_close(found.weight_gradients, fixture.expected.weight_gradients, tolerance, "weight gradient");
  expect_close(found.states, fixture.expected.states, tolerance, "state");
}

TEST_P(LayerAgainstPyTorch, LeavesWhatOthersHoldAndRepeatsToTheBit) {
  const auto& [backend, fixture] = GetParam();
  const auto on = open_stream(backend);
  const layer_outcome once = run_layer(*on, fixture.call);
  layer_call again = fixture.call;
  again.shared_handles = true;
  const layer_outcome found = run_layer(*on, again);
  expect_same(found.inputs_after, fixture.call.inputs, "input");
  expect_same(found.output_gradients_after, fixture.call.output_gradients, "output gradient");
  expect_same(found.outputs, once.outputs, "output");
  expect_same(found.input_gradients, once.input_gradients, "input gradient");
  expect_same(found.weight_gradients, once.weight_gradients, "weight gradient");
  expect_same(found.states, once.states, "state");
}

std::string layer_parameter_name(const ::testing::TestParamInfo<layer_parameter>& info) {
  return std::get<1>(info.param).name + "On" + std::get<0>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Suite, LayerAgainstPyTorch,
                         ::testing::Combine(::testing::ValuesIn(layer_backends_under_test()),
                                            ::testing::ValuesIn(layer_fixtures().layers)),
                         layer_parameter_name);

class BackendAgainstPyTorch : public ::testing::TestWithParam<backend_under_test> {};

TEST_P(BackendAgainstPyTorch, SoftmaxCrossEntropyAgrees) {
  const auto on = open_stream(GetParam());
  for (const loss_fixture& fixture : layer_fixtures().losses) {
    SCOPED_TRACE(fixture.name);
    on->run([&](backend& ops) {
      const classifier_head head(fixture.label_smoothing);
      const auto value = head.forward(ops, to_device(ops, fixture.logits), labels_to_device(ops, fixture.labels));
      EXPECT_NEAR(metrics_of(value).loss_sum, fixture.loss_sum, tolerance * fixture.loss_sum);
      EXPECT_EQ(metrics_of(value).correct_top1, fixture.correct_top1);
      EXPECT_EQ(metrics_of(value).correct_top5, fixture.correct_top5);
      expect_close(to_host(ops, value.saved[0]), fixture.probabilities, tolerance, "probabilities");
      expect_close(to_host(ops, head.backward(ops, value, fixture.scale)), fixture.gradient, tolerance, "gradient");
    });
  }
}

// The weights of a run, then what is in use after each step; `in_place` lets each step overwrite its own weight.
std::vector<host_tensor> optimize(backend& ops, const optimizer_fixture& fixture, bool in_place) {
  const auto optimizer = make_optimizer(fixture.options);
  optimizer_state state;
  tensor weight = to_device(ops, fixture.start, memory_use::weights);
  std::vector<host_tensor> weights, in_use;
  for (const host_tensor& gradient : fixture.gradients) {
    tensor next = in_place ? weight : ops.allocate(dtype::f32, weight.dims(), memory_use::weights);
    optimizer->step(ops, fixture.learning_rate, 0.5F, true, weight, to_device(ops, gradient), state, next,
                    one_flag(ops), 0);
    if (static_cast<std::int64_t>(weights.size()) >= fixture.options.average_from) optimizer->average(ops, next, state);
    weights.push_back(to_host(ops, next));
    in_use.push_back(to_host(ops, optimizer->in_use(next, state)));
    weight = next;
  }
  const auto steps = static_cast<std::int64_t>(fixture.gradients.size());
  EXPECT_EQ(state.step, fixture.in_use.empty() ? steps : steps - fixture.options.average_from);
  EXPECT_EQ(state.tensors.size(), optimizer->state_names().size());
  weights.insert(weights.end(), in_use.begin(), in_use.end());
  return weights;
}

TEST_P(BackendAgainstPyTorch, OptimizersAgreeOverSixSteps) {
  const auto on = open_stream(GetParam());
  for (const optimizer_fixture& fixture : layer_fixtures().optimizers) {
    SCOPED_TRACE(fixture.name);
    on->run([&](backend& ops) {
      auto wanted = fixture.weights;
      const auto& in_use = fixture.in_use.empty() ? fixture.weights : fixture.in_use;
      wanted.insert(wanted.end(), in_use.begin(), in_use.end());
      const auto weights = optimize(ops, fixture, false);
      expect_close(weights, wanted, tolerance, "weight after step");
      expect_same(optimize(ops, fixture, true), weights, "weight in place");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Suite, BackendAgainstPyTorch, ::testing::ValuesIn(backends_under_test()),
                         [](const auto& which) { return which.param.name; });

} // namespace

} // namespace penstock::testing
