// Layers that only move elements: where each goes, that its gradient comes back, and what is refused.
#include "kernels/check.hpp"
#include "kernels/layers/arrange.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

#include <functional>

namespace penstock::testing {
namespace {

using ::testing::ThrowsMessage;

// The elements of the first input in the order of the output, by their place in the input.
using source = std::function<std::size_t(const std::vector<std::int64_t>& place)>;

std::vector<std::int64_t> place_of(std::size_t element, const shape& dims) {
  std::vector<std::int64_t> place(dims.size());
  for (std::size_t i = dims.size(); i-- > 0;) {
    place[i] = static_cast<std::int64_t>(element) % dims[i];
    element /= static_cast<std::size_t>(dims[i]);
  }
  return place;
}

void expect_moves(const layer_call& call, const source& from) {
  const auto& x = call.inputs[0];
  const shape dims = call.output_gradients[0].dims;
  host_tensor y{dims, {}}, dx{x.dims, std::vector<float>(x.values.size())};
  for (std::size_t i = 0; i < static_cast<std::size_t>(element_count(dims)); ++i) {
    const std::size_t at = from(place_of(i, dims));
    y.values.push_back(x.values[at]);
    dx.values[at] += call.output_gradients[0].values[i];
  }
  for (const auto& backend : layer_backends_under_test()) {
    SCOPED_TRACE(backend.name + " " + to_string(x.dims));
    const auto found = run_layer(*open_stream(backend), call);
    expect_same(found.outputs, {y}, "output");
    expect_same({found.input_gradients[0]}, {dx}, "input gradient");
  }
  expect_backends_agree(call, 0);
  expect_same_bits_for_any_threads(call);
}

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

TEST(ToSequence, TakesTheChannelsOfEachPlaceTogether) {
  for (const shape& d : {shape{2, 3, 5, 7}, shape{3, 16, 2, 3}, shape{2, 37, 5, 3}, shape{5, 64, 9, 14}})
    expect_moves(random_call(layers::to_sequence(), std::vector<shape>{d}, 4),
                 [&](const auto& at) { return index((at[0] * d[1] + at[2]) * d[2] * d[3] + at[1]); });
  EXPECT_THAT(
      [] {
        layers::to_sequence()->infer(std::vector<tensor_spec>{{dtype::f32, {2, 3, 4}}});
      },
      ThrowsMessage<usage_error>("input has shape [2, 3, 4], [N, C, H, W] is wanted"));
}

TEST(SelectToken, TakesOneOfEverySequence) {
  for (const std::int64_t token : {0, 4})
    expect_moves(random_call(layers::select_token(token), std::vector<shape>{{3, 5, 7}}, 4),
                 [&](const auto& at) { return index((at[0] * 5 + token) * 7 + at[1]); });
  EXPECT_THAT(
      [] {
        layers::select_token(5)->infer(std::vector<tensor_spec>{{dtype::f32, {3, 5, 7}}});
      },
      ThrowsMessage<usage_error>("input has 5 tokens, at least 6 are wanted"));
}

TEST(Slice, TakesAPartOfAnyAxis) {
  expect_moves(random_call(layers::slice(1, 2, 4), std::vector<shape>{{3, 5, 7}}, 4),
               [](const auto& at) { return index((at[0] * 5 + at[1] + 2) * 7 + at[2]); });
  expect_moves(random_call(layers::slice(2, 0, -1), std::vector<shape>{{3, 5, 7}}, 4),
               [](const auto& at) { return index((at[0] * 5 + at[1]) * 7 + at[2]); });
  expect_moves(random_call(layers::slice(1, 1, 0), std::vector<shape>{{67, 50}}, 4),
               [](const auto& at) { return index(at[0] * 50 + at[1] + 1); });
}

TEST(Slice, TakesTokenIdsToo) {
  const layer_call call{.op = layers::slice(1, 0, -1), .inputs = {random_ids({3, 4}, 1000, 1)}};
  for (const auto& backend : layer_backends_under_test()) {
    const auto y = run_layer(*open_stream(backend), call).outputs[0];
    EXPECT_EQ(y.type, dtype::i64);
    EXPECT_EQ(y.dims, (shape{3, 3}));
    EXPECT_EQ(y.values[3], call.inputs[0].values[4]) << backend.name;
  }
}

TEST(Slice, RefusesWhatIsNoPart) {
  const auto infer = [](layer_ptr op, shape dims) {
    op->infer(std::vector<tensor_spec>{{dtype::f32, std::move(dims)}});
  };
  EXPECT_THAT(
      [&] {
        infer(layers::slice(1, 2, 6), {3, 5});
      },
      ThrowsMessage<usage_error>("axis 1 of the input has extent 5, of which 2 to 6 is no part"));
  EXPECT_THAT(
      [&] {
        infer(layers::slice(1, 2, -3), {3, 5});
      },
      ThrowsMessage<usage_error>("axis 1 of the input has extent 5, of which 2 to 2 is no part"));
  EXPECT_THAT(
      [&] {
        infer(layers::slice(2, 0, 1), {3, 5});
      },
      ThrowsMessage<usage_error>("input has shape [3, 5], 3 axes or more, but not 4, are wanted"));
  EXPECT_THAT([] { layers::slice(0, 0, 1); }, ThrowsMessage<usage_error>("slice: axis is 0, at least 1 is wanted"));
}

TEST(Transpose, SwapsTwoAxes) {
  expect_moves(random_call(layers::transpose(1, 2), std::vector<shape>{{3, 5, 7}}, 4),
               [](const auto& at) { return index((at[0] * 5 + at[2]) * 7 + at[1]); });
  expect_moves(random_call(layers::transpose(3, 1), std::vector<shape>{{2, 3, 2, 5, 4}}, 4),
               [](const auto& at) { return index((((at[0] * 3 + at[3]) * 2 + at[2]) * 5 + at[1]) * 4 + at[4]); });
  expect_moves(random_call(layers::transpose(1, 1), std::vector<shape>{{3, 5}}, 4),
               [](const auto& at) { return index(at[0] * 5 + at[1]); });
  expect_moves(random_call(layers::transpose(2, 1), std::vector<shape>{{9, 67, 50}}, 4),
               [](const auto& at) { return index((at[0] * 67 + at[2]) * 50 + at[1]); });
}

TEST(GatherRows, TakesRowsByTheirPlaceAndAddsTheGradientsOfThoseTakenTwice) {
  for (const auto& [x, taken] : {std::pair{shape{3, 5, 7}, 4L}, {shape{2, 9, 33}, 1L}, {shape{17, 20, 131}, 30L}}) {
    const auto call = random_call(layers::gather_rows(), {random_tensor(x, 1), random_ids({x[0], taken}, x[1], 2)}, 3);
    expect_moves(call, [&](const auto& at) {
      const auto position = static_cast<std::int64_t>(call.inputs[1].values[index(at[0] * taken + at[1])]);
      return index((at[0] * x[1] + position) * x[2] + at[2]);
    });
  }
}

TEST(GatherRows, NamesThePositionOutsideTheSequence) {
  auto call = random_call(layers::gather_rows(), {random_tensor({3, 5, 7}, 1), random_ids({3, 4}, 5, 2)}, 3);
  call.name = "cls.gather";
  call.inputs[1].values[9] = 5;
  for (const auto& backend : layer_backends_under_test()) {
    const auto found = run_layer(*open_stream(backend), call);
    EXPECT_EQ(found.refusal, "[layer] cls.gather: position 5 at row 2, entry 1; wanted 0 to 4") << backend.name;
    EXPECT_EQ(found.outputs[0].values[9 * 7], 0) << backend.name;
  }
}

TEST(Features, ComeTogetherAndApartAtAnyRank) {
  for (const shape& rows : {shape{3}, shape{3, 5}, shape{2, 9, 2}, shape{2, 2, 1, 3}}) {
    std::vector<shape> dims(3, rows);
    dims[0].push_back(7), dims[1].push_back(1), dims[2].push_back(16);
    const auto call = random_call(layers::concat_features(), dims, 5);
    const auto count = static_cast<std::size_t>(element_count(rows));
    host_tensor whole{rows, {}};
    whole.dims.push_back(24);
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t p = 0; p < 3; ++p) {
        const auto width = static_cast<std::size_t>(dims[p].back());
        const auto* row = call.inputs[p].values.data() + r * width;
        whole.values.insert(whole.values.end(), row, row + width);
      }
    auto back = random_call(layers::split_features({7, 1, 16}), {whole}, 5);
    back.output_gradients = call.inputs;
    for (const auto& backend : layer_backends_under_test()) {
      SCOPED_TRACE(backend.name + to_string(rows));
      expect_same(run_layer(*open_stream(backend), call).outputs, {whole}, "side by side");
      const auto parts = run_layer(*open_stream(backend), back);
      expect_same(parts.outputs, call.inputs, "apart");
      expect_same(parts.input_gradients, {whole}, "gradient");
    }
    expect_backends_agree(call, 0);
    expect_backends_agree(back, 0);
  }
}

TEST(Features, RefuseWhatDoesNotFit) {
  EXPECT_THAT(
      [] {
        layers::concat_features()->infer(std::vector<tensor_spec>{{dtype::f32, {3, 5, 7}}, {dtype::f32, {3, 4, 7}}});
      },
      ThrowsMessage<usage_error>(
          "inputs have shapes [3, 5, 7] and [3, 4, 7], equal ones but for the features are wanted"));
  EXPECT_THAT(
      [] {
        layers::split_features({2, 3})->infer(std::vector<tensor_spec>{{dtype::f32, {3, 6}}});
      },
      ThrowsMessage<usage_error>("input has 6 features, 5 are wanted"));
  EXPECT_THAT([] { layers::split_features({2}); },
              ThrowsMessage<usage_error>("split_features: number of sizes is 1, at least 2 is wanted"));
}

} // namespace
} // namespace penstock::testing
