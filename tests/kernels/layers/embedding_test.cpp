// Embeddings: rows by number and by place, their gradients, what is dropped, and what is refused.
#include "kernels/check.hpp"
#include "kernels/dropout_random.hpp"
#include "kernels/initialise.hpp"
#include "kernels/layers/embedding.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

#include <algorithm>

namespace penstock::testing {
namespace {

using ::testing::ThrowsMessage;

struct lookup {
  layer_call call;
  std::int64_t rows, width;

  lookup(const shape& ids, std::int64_t all, std::int64_t features, layers::embedding_options options = {})
      : call(random_call(layers::embedding(all, features, options), {random_ids(ids, all, 3)}, 5)), rows(all),
        width(features) {}

  // Sums in the order of the ids, as promised. `share`: of a row.
  template <class Share>
  layer_outcome by_the_definition(const Share& share) const {
    layer_outcome wanted;
    shape dims = call.inputs[0].dims;
    dims.push_back(width);
    host_tensor y{dims, {}}, dw{{rows, width}, std::vector<float>(static_cast<std::size_t>(rows * width))};
    for (std::size_t i = 0; i < call.inputs[0].values.size(); ++i)
      for (std::int64_t c = 0; c < width; ++c) {
        const auto at = static_cast<std::size_t>(static_cast<std::int64_t>(call.inputs[0].values[i]) * width + c);
        const auto id = static_cast<std::int64_t>(call.inputs[0].values[i]);
        const auto here = i * static_cast<std::size_t>(width) + static_cast<std::size_t>(c);
        y.values.push_back(call.weights[0].values[at] * share(id));
        dw.values[at] += call.output_gradients[0].values[here] * share(id);
      }
    wanted.outputs = {y};
    wanted.weight_gradients = {dw};
    return wanted;
  }
};

TEST(Embedding, CopiesRowsAndAddsTheirGradientsInTheOrderOfTheTokens) {
  for (const auto& one :
       {lookup({3, 7}, 5, 9), lookup({2, 3, 4}, 50, 1), lookup({6}, 3, 33), lookup({67, 40}, 90, 131)}) {
    const auto wanted = one.by_the_definition([](std::int64_t) { return 1.0F; });
    for (const auto& backend : layer_backends_under_test()) {
      SCOPED_TRACE(backend.name);
      const auto found = run_layer(*open_stream(backend), one.call);
      expect_same(found.outputs, wanted.outputs, "output");
      expect_same(found.weight_gradients, wanted.weight_gradients, "weight gradient");
      EXPECT_TRUE(found.input_gradients.at(0).values.empty()) << "ids have no gradient";
      EXPECT_EQ(found.refusal, "");
    }
    expect_backends_agree(one.call, 0);
    expect_same_bits_for_any_threads(one.call);
  }
  expect_gradients_are_slopes(lookup({3, 7}, 5, 3).call);
}

TEST(Embedding, DropsWholeRowsWhereverTheyStandInTrainingAlone) {
  lookup one({12, 50}, 40, 8, {.row_dropout = 0.3F});
  const auto wanted = one.by_the_definition([&](std::int64_t id) {
    return dropout_keeps(one.call.random, static_cast<std::uint64_t>(id), 0.3F) ? 1 / (1 - 0.3F) : 0.0F;
  });
  for (const auto& backend : layer_backends_under_test()) {
    const auto on = open_stream(backend);
    const auto found = run_layer(*on, one.call);
    expect_same(found.outputs, wanted.outputs, backend.name + " output");
    expect_close(found.weight_gradients, wanted.weight_gradients, 1e-6, backend.name + " weight gradient");
    auto evaluated = one.call;
    evaluated.mode = phase::evaluation;
    evaluated.output_gradients.clear();
    const auto plain = one.by_the_definition([](std::int64_t) { return 1.0F; });
    expect_same(run_layer(*on, evaluated).outputs, plain.outputs, backend.name + " evaluation");
  }
  expect_backends_agree(one.call);
}

TEST(Embedding, LeavesThePaddingRowAtZero) {
  lookup one({4, 9}, 6, 5, {.padding_row = 2});
  for (const auto& backend : layer_backends_under_test()) {
    const auto found = run_layer(*open_stream(backend), one.call);
    const auto* row = found.weight_gradients[0].values.data() + 10;
    EXPECT_EQ(std::count(row, row + 5, 0.0F), 5) << backend.name;
    EXPECT_NE(found.weight_gradients[0].values[0], 0.0F) << backend.name;
  }
  const auto spec = one.call.op->parameters({})[0];
  std::vector<float> values(30);
  initialise(values, spec.init, 1, "embeddings.weight");
  EXPECT_EQ(std::count(values.begin(), values.end(), 0.0F), 5);
  EXPECT_EQ(std::count(values.begin() + 10, values.begin() + 15, 0.0F), 5);
}

TEST(Embedding, NamesTheFirstIdOutsideTheTable) {
  lookup one({4, 20}, 30, 5);
  one.call.name = "bert.embeddings";
  one.call.inputs[0].values[77] = 30;
  one.call.inputs[0].values[78] = -1;
  for (const auto& backend : layer_backends_under_test()) {
    EXPECT_EQ(run_layer(*open_stream(backend), one.call).refusal,
              "[layer] bert.embeddings: token id 30 at row 3, position 17; wanted 0 to 29");
  }
  one.call.inputs[0].values[77] = 29;
  for (const auto& backend : layer_backends_under_test()) {
    const auto found = run_layer(*open_stream(backend), one.call);
    EXPECT_EQ(found.refusal, "[layer] bert.embeddings: token id -1 at row 3, position 18; wanted 0 to 29");
    EXPECT_EQ(found.outputs[0].values[78 * 5], 0) << "nothing beyond the table is read";
  }
}

TEST(Embedding, SaysWhatItIsAndRefusesWhatItCannotBe) {
  const auto op = layers::embedding(7, 3);
  EXPECT_EQ(op->infer(std::vector<tensor_spec>{{dtype::i64, {2, 5}}})[0].dims, (shape{2, 5, 3}));
  EXPECT_EQ(op->parameters({})[0].name, "weight");
  EXPECT_THAT(
      [&] {
        op->infer(std::vector<tensor_spec>{{dtype::f32, {2, 5}}});
      },
      ThrowsMessage<usage_error>("input is F32, I64 is wanted"));
  EXPECT_THAT([] { layers::embedding(0, 3); },
              ThrowsMessage<usage_error>("embedding: rows is 0, at least 1 is wanted"));
  EXPECT_THAT([] { layers::embedding(5, 3, {.padding_row = 5}); },
              ThrowsMessage<usage_error>("embedding: padding row is 5, 0 to 4 is wanted, or -1 for none"));
  EXPECT_THAT([] { layers::embedding(5, 3, {.row_dropout = 1}); },
              ThrowsMessage<usage_error>("embedding: row dropout is 1, at least 0 and less than 1 is wanted"));
}

TEST(Positions, AddsARowToEveryTokenAndSumsItsGradientOverTheBatch) {
  for (const bool leading : {false, true}) {
    const auto call =
        random_call(layers::positions(9, 33, {.leading_axis = leading}), std::vector<shape>{{5, 7, 33}}, 2);
    EXPECT_EQ(call.weights[0].dims, (leading ? shape{1, 9, 33} : shape{9, 33}));
    host_tensor y{{5, 7, 33}, {}}, dw{call.weights[0].dims, std::vector<float>(9 * 33)};
    for (std::size_t i = 0; i < call.inputs[0].values.size(); ++i) {
      y.values.push_back(call.inputs[0].values[i] + call.weights[0].values[i % (7 * 33)]);
      dw.values[i % (7 * 33)] += call.output_gradients[0].values[i];
    }
    for (const auto& backend : layer_backends_under_test()) {
      const auto found = run_layer(*open_stream(backend), call);
      expect_same(found.outputs, {y}, backend.name + " output");
      expect_same(found.input_gradients, call.output_gradients, backend.name + " input gradient");
      expect_same(found.weight_gradients, {dw}, backend.name + " weight gradient");
    }
    expect_backends_agree(call, 0);
  }
  expect_same_bits_for_any_threads(random_call(layers::positions(70, 131), std::vector<shape>{{9, 67, 131}}, 2));
}

TEST(Positions, RefusesLongerSequencesAlsoInACall) {
  const auto op = layers::positions(4, 3, {.name = ""});
  EXPECT_EQ(op->parameters({})[0].name, "");
  EXPECT_THAT(
      [&] {
        op->infer(std::vector<tensor_spec>{{dtype::f32, {2, 5, 3}}});
      },
      ThrowsMessage<usage_error>("input has 5 positions, at most 4 are wanted"));
  EXPECT_THAT(
      [&] {
        op->infer(std::vector<tensor_spec>{{dtype::f32, {2, 4, 2}}});
      },
      ThrowsMessage<usage_error>("input has 2 features, 3 are wanted"));
  auto call = random_call(op, std::vector<shape>{{2, 4, 3}});
  call.inputs[0] = random_tensor({2, 5, 3}, 1);
  EXPECT_THROW(run_layer(*reference_stream(), call), usage_error);
}

TEST(ClassToken, StandsInFrontOfEverySequence) {
  const auto call = random_call(layers::class_token(5), std::vector<shape>{{3, 4, 5}}, 6);
  EXPECT_EQ(call.op->parameters({})[0].name, "");
  EXPECT_EQ(call.weights[0].dims, (shape{1, 1, 5}));
  host_tensor y{{3, 5, 5}, {}}, dx{{3, 4, 5}, {}}, dw{{1, 1, 5}, std::vector<float>(5)};
  for (std::size_t b = 0; b < 3; ++b)
    for (std::size_t i = 0; i < 25; ++i) {
      const float g = call.output_gradients[0].values[b * 25 + i];
      y.values.push_back(i < 5 ? call.weights[0].values[i] : call.inputs[0].values[b * 20 + i - 5]);
      if (i < 5)
        dw.values[i] += g;
      else
        dx.values.push_back(g);
    }
  for (const auto& backend : layer_backends_under_test()) {
    const auto found = run_layer(*open_stream(backend), call);
    expect_same(found.outputs, {y}, backend.name + " output");
    expect_same(found.input_gradients, {dx}, backend.name + " input gradient");
    expect_same(found.weight_gradients, {dw}, backend.name + " weight gradient");
  }
  expect_backends_agree(call, 0);
}

} // namespace
} // namespace penstock::testing
