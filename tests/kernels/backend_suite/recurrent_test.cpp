// The recurrent layers of every backend against PyTorch in float64.
#include "tests/kernels/backend_suite/closeness.hpp"
#include "tests/kernels/backend_suite/recurrent_fixtures.hpp"

namespace penstock::testing {
namespace {

using fixture_parameter = std::tuple<backend_under_test, layer_fixture>;
class RecurrentAgainstPyTorch : public ::testing::TestWithParam<fixture_parameter> {};

TEST_P(RecurrentAgainstPyTorch, AgreesInOutputsAndGradients) {
  const auto& [backend, fixture] = GetParam();
  const layer_outcome found = run_layer(*open_stream(backend), fixture.call);
  expect_close(found.outputs, fixture.expected.outputs, 1e-5, "output");
  expect_close(found.input_gradients, fixture.expected.input_gradients, 1e-5, "input gradient");
  expect_close(found.weight_gradients, fixture.expected.weight_gradients, 1e-5, "weight gradient");
}

TEST_P(RecurrentAgainstPyTorch, LeavesWhatOthersHoldAndHasTheSameBitsInTwoParts) {
  const auto& [backend, fixture] = GetParam();
  const auto on = open_stream(backend);
  const layer_outcome once = run_layer(*on, fixture.call);
  layer_call again = fixture.call;
  again.shared_handles = true;
  again.split_backward = true;
  const layer_outcome found = run_layer(*on, again);
  expect_same(found.inputs_after, fixture.call.inputs, "input");
  expect_same(found.output_gradients_after, fixture.call.output_gradients, "output gradient");
  expect_same(found.outputs, once.outputs, "output");
  expect_same(found.input_gradients, once.input_gradients, "input gradient");
  expect_same(found.weight_gradients, once.weight_gradients, "weight gradient");
}

TEST_P(RecurrentAgainstPyTorch, GivesOnlyTheGradientsThatAreWanted) {
  const auto& [backend, fixture] = GetParam();
  const auto on = open_stream(backend);
  const layer_outcome all = run_layer(*on, fixture.call);
  layer_call call = fixture.call;
  call.need_weight_gradient = false;
  const layer_outcome inputs = run_layer(*on, call);
  expect_same(inputs.input_gradients, all.input_gradients, "input gradient alone");
  for (const auto& gradient : inputs.weight_gradients)
    EXPECT_TRUE(gradient.dims.empty());
  call = fixture.call;
  call.need_input_gradient.assign(call.inputs.size(), false);
  const layer_outcome weights = run_layer(*on, call);
  expect_same(weights.weight_gradients, all.weight_gradients, "weight gradient alone");
  for (const auto& gradient : weights.input_gradients)
    EXPECT_TRUE(gradient.dims.empty());
}

TEST_P(RecurrentAgainstPyTorch, KeepsNothingInEvaluationAndComputesTheSame) {
  const auto& [backend, fixture] = GetParam();
  layer_call call = fixture.call;
  call.mode = phase::evaluation;
  call.output_gradients.clear();
  const layer_outcome found = run_layer(*open_stream(backend), call);
  expect_close(found.outputs, fixture.expected.outputs, 1e-5, "output");
  EXPECT_EQ(found.saved, 0U);
}

INSTANTIATE_TEST_SUITE_P(Suite, RecurrentAgainstPyTorch,
                         ::testing::Combine(::testing::ValuesIn(layer_backends_under_test()),
                                            ::testing::ValuesIn(recurrent_fixtures())),
                         [](const auto& which) {
                           return std::get<1>(which.param).name + "On" + std::get<0>(which.param).name;
                         });

} // namespace
} // namespace penstock::testing
