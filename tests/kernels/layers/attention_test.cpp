// Attention: float64 by the definition, gradients, masks, dropout that repeats itself, and what is refused.
#include "kernels/check.hpp"
#include "kernels/dropout_random.hpp"
#include "kernels/layers/attention.hpp"
#include "kernels/ops/attention_ops.hpp"
#include "kernels/shape.hpp"
#include "tests/kernels/backend_suite/layer_promises.hpp"

#include <gmock/gmock.h>

#include <limits>

namespace penstock::testing {
namespace {

struct attention_case {
  std::int64_t batch, queries, keys, width, heads;
  layers::attention_options options{};
  std::vector<float> lengths{}; // none: all keys are seen
  bool packed = false;
};

std::vector<attention_case> cases() {
  return {{2, 5, 5, 6, 2},
          {1, 1, 1, 1, 1},
          {3, 7, 11, 12, 3, {}, {11, 4, 1}},                             // other keys than queries
          {2, 9, 9, 10, 1, {.causal = true}},                            //
          {3, 6, 6, 8, 4, {.dropout = 0.3F, .causal = true}, {6, 2, 0}}, // a sample of which no key is seen
          {2, 5, 5, 6, 2, {.scale = 0.5F}, {3, 5}, true},                // q, k and v side by side
          {2, 67, 67, 34, 2, {.dropout = 0.1F}, {67, 40}, true},         // several blocks of queries, odd heads
          {2, 130, 197, 64, 1, {}, {150, 197}},                          //
          {1, 131, 131, 20, 1, {.dropout = 0.5F, .causal = true}, {}, true}};
}

layer_call call_of(const attention_case& c, unsigned seed) {
  std::vector<host_tensor> inputs;
  if (c.packed)
    inputs.push_back(random_tensor({c.batch, c.queries, 3 * c.width}, seed));
  else
    inputs = {random_tensor({c.batch, c.queries, c.width}, seed), random_tensor({c.batch, c.keys, c.width}, seed + 1),
              random_tensor({c.batch, c.keys, c.width}, seed + 2)};
  if (!c.lengths.empty()) inputs.push_back({{c.batch}, c.lengths, dtype::i64});
  return random_call(layers::attention(c.heads, c.options), std::move(inputs), seed + 3);
}

// softmax(scale q k^T) v and its derivative in float64, from the values of a call.
class definition {
public:
  definition(const attention_case& c, const layer_call& call) : c_(c), call_(call) {}

  layer_outcome outcome() {
    layer_outcome wanted;
    wanted.outputs.push_back(zeros({c_.batch, c_.queries, c_.width}));
    for (const auto& x : call_.inputs)
      wanted.input_gradients.push_back(x.type == dtype::f32 ? zeros(x.dims) : host_tensor{});
    for (std::int64_t b = 0; b < c_.batch; ++b)
      for (std::int64_t h = 0; h < c_.heads; ++h)
        for (std::int64_t i = 0; i < c_.queries; ++i)
          one_query(b, h, i, wanted);
    return wanted;
  }

private:
  static host_tensor zeros(const shape& dims) {
    return {dims, std::vector<float>(static_cast<std::size_t>(element_count(dims)))};
  }
  // Of q (0), k (1) or v (2): which tensor, and where.
  std::pair<std::size_t, std::size_t> place(std::int64_t operand, std::int64_t b, std::int64_t t,
                                            std::int64_t f) const {
    const std::int64_t tokens = operand == 0 ? c_.queries : c_.keys;
    if (!c_.packed)
      return {static_cast<std::size_t>(operand), static_cast<std::size_t>((b * tokens + t) * c_.width + f)};
    return {0, static_cast<std::size_t>((b * tokens + t) * 3 * c_.width + operand * c_.width + f)};
  }
  double value(std::int64_t operand, std::int64_t b, std::int64_t t, std::int64_t f) const {
    const auto [tensor, at] = place(operand, b, t, f);
    return static_cast<double>(call_.inputs[tensor].values[at]);
  }
  void add(layer_outcome& to, std::int64_t operand, std::int64_t b, std::int64_t t, std::int64_t f, double x) const {
    const auto [tensor, at] = place(operand, b, t, f);
    to.input_gradients[tensor].values[at] += static_cast<float>(x);
  }

  void one_query(std::int64_t b, std::int64_t h, std::int64_t i, layer_outcome& to) const {
    const std::int64_t head = c_.width / c_.heads, first = h * head;
    const auto length =
        c_.lengths.empty() ? c_.keys : static_cast<std::int64_t>(c_.lengths[static_cast<std::size_t>(b)]);
    const std::int64_t seen = c_.options.causal ? std::min(length, i + 1) : length;
    const double scale =
        c_.options.scale ? static_cast<double>(*c_.options.scale) : 1 / std::sqrt(static_cast<double>(head));
    std::vector<double> p, share, dp;
    double sum = 0, projection = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      double score = 0;
      for (std::int64_t d = first; d < first + head; ++d)
        score += value(0, b, i, d) * value(1, b, j, d);
      p.push_back(std::exp(score * scale));
      sum += p.back();
      const auto element = static_cast<std::uint64_t>(((b * c_.heads + h) * c_.queries + i) * c_.keys + j);
      const float rate = c_.options.dropout;
      share.push_back(rate == 0                                    ? 1
                      : dropout_keeps(call_.random, element, rate) ? 1 / (1 - static_cast<double>(rate))
                                                                   : 0);
    }
    const auto g = [&](std::int64_t d) {
      return static_cast<double>(
          call_.output_gradients[0].values[static_cast<std::size_t>((b * c_.queries + i) * c_.width + d)]);
    };
    for (std::size_t j = 0; j < p.size(); ++j) {
      const auto key = static_cast<std::int64_t>(j);
      p[j] /= sum;
      dp.push_back(0);
      for (std::int64_t d = first; d < first + head; ++d) {
        to.outputs[0].values[static_cast<std::size_t>((b * c_.queries + i) * c_.width + d)] +=
            static_cast<float>(p[j] * share[j] * value(2, b, key, d));
        add(to, 2, b, key, d, p[j] * share[j] * g(d));
        dp[j] += g(d) * value(2, b, key, d) * share[j];
      }
      projection += p[j] * dp[j];
    }
    for (std::size_t j = 0; j < p.size(); ++j)
      for (std::int64_t d = first; d < first + head; ++d) {
        const double ds = p[j] * (dp[j] - projection) * scale;
        add(to, 0, b, i, d, ds * value(1, b, static_cast<std::int64_t>(j), d));
        add(to, 1, b, static_cast<std::int64_t>(j), d, ds * value(0, b, i, d));
      }
  }

  const attention_case& c_;
  const layer_call& call_;
};

std::string name_of(const attention_case& c) {
  return to_string({c.batch, c.queries, c.keys, c.width, c.heads});
}

TEST(Attention, IsItsDefinitionInFloat64OnEveryBackend) {
  unsigned seed = 1;
  for (const auto& c : cases()) {
    const auto call = call_of(c, seed += 10);
    const auto wanted = definition(c, call).outcome();
    for (const auto& backend : backends_under_test()) {
      SCOPED_TRACE(backend.name + " " + name_of(c));
      const auto found = run_layer(*open_stream(backend), call);
      expect_close(found.outputs, wanted.outputs, 2e-6, "output");
      if (c.keys > 1) // else the probability is 1, and rounding of nothing is compared
        expect_close(found.input_gradients, wanted.input_gradients, 1e-5, "input gradient");
      EXPECT_EQ(found.refusal, "");
    }
  }
}

TEST(Attention, KeepsWhatEveryLayerPromises) {
  unsigned seed = 500;
  for (const auto& c : cases()) {
    SCOPED_TRACE(name_of(c));
    const auto call = call_of(c, seed += 10);
    if (c.keys > 1) expect_backends_agree(call);
    expect_same_bits_for_any_threads(call);
  }
}

TEST(Attention, GradientsAreSlopes) {
  for (const auto& c : {attention_case{2, 3, 4, 4, 2}, attention_case{2, 4, 4, 4, 1, {.causal = true}, {4, 2}, true},
                        attention_case{1, 3, 3, 4, 2, {.dropout = 0.4F}}}) {
    SCOPED_TRACE(name_of(c));
    expect_gradients_are_slopes(call_of(c, 900));
  }
}

TEST(Attention, SeesNothingBeyondTheLengthAndGivesZerosWhereNothingIsLeft) {
  const attention_case c{3, 7, 7, 12, 3, {}, {7, 4, 0}};
  const auto call = call_of(c, 7);
  auto other = call;
  for (std::size_t i = 0; i < 12; ++i) // of keys and values beyond the second sample's length
    for (const std::size_t operand : {1U, 2U})
      other.inputs[operand].values[(7 + 4) * 12 + i] = 1e30F;
  for (const auto& backend : layer_backends_under_test()) {
    SCOPED_TRACE(backend.name);
    const auto found = run_layer(*open_stream(backend), call), same = run_layer(*open_stream(backend), other);
    expect_same(same.outputs, found.outputs, "output");
    for (std::size_t i = 2 * 7 * 12; i < 3 * 7 * 12; ++i) {
      EXPECT_EQ(found.outputs[0].values[i], 0);
      for (std::size_t operand = 0; operand < 3; ++operand)
        EXPECT_EQ(found.input_gradients[operand].values[i], 0);
    }
    for (std::size_t i = (7 + 4) * 12; i < 2 * 7 * 12; ++i)
      EXPECT_EQ(found.input_gradients[1].values[i], 0) << "a key that is not seen";
  }
}

TEST(Attention, DropsInTrainingAlone) {
  auto dropping = call_of({2, 20, 20, 12, 3, {.dropout = 0.5F}}, 7), plain = dropping;
  plain.op = layers::attention(3);
  plain.output_gradients.clear();
  for (const auto& backend : layer_backends_under_test()) {
    const auto on = open_stream(backend);
    const auto trained = run_layer(*on, dropping), again = run_layer(*on, dropping);
    expect_same(again.outputs, trained.outputs, "what is computed again");
    auto evaluated = dropping;
    evaluated.mode = phase::evaluation;
    evaluated.output_gradients.clear();
    expect_same(run_layer(*on, evaluated).outputs, run_layer(*on, plain).outputs, "evaluation");
    EXPECT_EQ(run_layer(*on, evaluated).saved, 0U);
    EXPECT_NE(trained.outputs[0].values, run_layer(*on, plain).outputs[0].values);
  }
}

TEST(Attention, ShowsNaN) {
  auto call = call_of({1, 20, 20, 16, 1}, 7);
  call.inputs[1].values[19 * 16] = std::numeric_limits<float>::quiet_NaN();
  for (const auto& backend : backends_under_test())
    EXPECT_TRUE(std::isnan(run_layer(*open_stream(backend), call).outputs[0].values[0])) << backend.name;
}

TEST(Attention, NamesTheLengthOutsideTheSequence) {
  auto call = call_of({3, 5, 5, 6, 2, {}, {5, 6, 2}}, 7);
  call.name = "encoder.attention";
  for (const auto& backend : layer_backends_under_test())
    EXPECT_EQ(run_layer(*open_stream(backend), call).refusal,
              "[layer] encoder.attention: length 6 at row 1; wanted 0 to 5");
}

TEST(Attention, SaysWhatItIsAndRefusesWhatDoesNotFit) {
  using ::testing::ThrowsMessage;
  const auto op = layers::attention(4);
  const auto infer = [&](std::vector<tensor_spec> inputs) { return op->infer(inputs)[0].dims; };
  const tensor_spec x{dtype::f32, {2, 5, 8}}, packed{dtype::f32, {2, 5, 24}}, lengths{dtype::i64, {2}};
  EXPECT_EQ(infer({x, x, x}), x.dims);
  EXPECT_EQ(infer({packed, lengths}), x.dims);
  EXPECT_EQ(op->forward_flops(std::vector<tensor_spec>{packed}), 4.0 * 2 * 5 * 5 * 8);
  EXPECT_THAT([&] { infer({}); }, ThrowsMessage<usage_error>("0 inputs, 1 to 4 are wanted"));
  EXPECT_THAT(
      [&] {
        infer({{dtype::f32, {2, 5, 8}}});
      },
      ThrowsMessage<usage_error>("input has 8 features, queries, keys and values are wanted"));
  EXPECT_THAT(
      [&] {
        infer({{dtype::f32, {2, 5, 9}}});
      },
      ThrowsMessage<usage_error>("width 3 is no multiple of 4 heads"));
  EXPECT_THAT(
      [&] {
        infer({packed, {dtype::i64, {3}}});
      },
      ThrowsMessage<usage_error>("inputs have 2 samples and 3 lengths, as many are wanted"));
  EXPECT_THAT(
      [&] {
        infer({x, x, {dtype::f32, {2, 4, 8}}});
      },
      ThrowsMessage<usage_error>("queries, keys and values have shapes [2, 5, 8], [2, 5, 8] and [2, 4, 8], "
                                 "equal ones are wanted but for the number of queries"));
  EXPECT_THAT([] { layers::attention(2, {.dropout = 1}); },
              ThrowsMessage<usage_error>("attention: dropout is 1, at least 0 and less than 1 is wanted"));
}

TEST(DropoutRandom, GivesTheMultipliersOfManyElementsAsOfEach) {
  for (const float p : {0.0F, 0.3F, 1.0F}) {
    const dropout_random random({.seed = 3, .layer = 5}, p);
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{0xFFFFFFF0U}, std::uint64_t{0x7FFFFFFFFFU}}) {
      std::vector<float> found(100);
      random.multipliers(first, 100, found.data());
      for (std::size_t i = 0; i < 100; ++i)
        EXPECT_EQ(found[i], random.keeps(first + i) ? random.scale() : 0) << first << " + " << i << ", " << p;
    }
  }
}

TEST(DropoutRandom, DropsManyElementsWhereTheyLieWhateverTheyAre) {
  const dropout_random random({.seed = 3, .layer = 5}, 0.3F);
  constexpr std::uint64_t first = 0xFFFFFFF0U;
  std::vector<float> values(700);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = random.keeps(first + i) ? static_cast<float>(i) - 300.5F : std::numeric_limits<float>::infinity();
  random.apply(first, 700, values.data(), values.data());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], random.keeps(first + i) ? (static_cast<float>(i) - 300.5F) * random.scale() : 0) << i;
}

} // namespace
} // namespace penstock::testing
