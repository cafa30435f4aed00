// Channels scaled and shifted: the formula, its gradient, what is refused.
#include "kernels/check.hpp"
#include "kernels/layers/scale_channels.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

namespace penstock::testing {
namespace {

using ::testing::ThrowsMessage;

TEST(ScaleChannels, ScalesAndShiftsEachByItsOwn) {
  const std::vector<float> scale{0.5F, -2.0F, 3.0F}, shift{1.0F, 0.25F, -4.0F};
  const auto call = random_call(layers::scale_channels(scale, shift), std::vector<shape>{{2, 3, 5, 7}}, 4);
  host_tensor y{{2, 3, 5, 7}, {}}, dx{{2, 3, 5, 7}, {}};
  for (std::size_t i = 0; i < call.inputs[0].values.size(); ++i) {
    const auto channel = i / 35 % 3;
    y.values.push_back(call.inputs[0].values[i] * scale[channel] + shift[channel]);
    dx.values.push_back(call.output_gradients[0].values[i] * scale[channel]);
  }
  for (const auto& backend : layer_backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto found = run_layer(*open_stream(backend), call);
    expect_close(found.outputs.at(0), y, 1e-6, "output");
    expect_close(found.input_gradients.at(0), dx, 1e-6, "input gradient");
  }
  expect_backends_agree(call);
  expect_same_bits_for_any_threads(call);
}

TEST(ScaleChannels, RefusesAnotherNumberOfChannels) {
  EXPECT_THAT(
      [] {
        layers::scale_channels({1, 1, 1}, {0, 0, 0})->infer(std::vector<tensor_spec>{{dtype::f32, {2, 1, 4, 4}}});
      },
      ThrowsMessage<usage_error>("input has 1 channels, 3 are wanted"));
}

} // namespace
} // namespace penstock::testing
