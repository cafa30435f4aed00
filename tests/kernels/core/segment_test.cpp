// A stage's arithmetic: the same bits however a network is cut or fused, and who gets which gradient.
#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/initialise.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/segment.hpp"
#include "kernels/stream.hpp"
#include "tests/kernels/core/chained_stages.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

namespace penstock {
namespace {

using namespace testing;
using ::testing::ThrowsMessage;

class SegmentCuts : public ::testing::TestWithParam<bool> {
public:
  std::shared_ptr<device> machine = open_device({});
  std::unique_ptr<stream> work = machine->create_stream({.name = "segment", .threads = 1, .reference = GetParam()});
  step_result train(const std::shared_ptr<const model>& m, const std::vector<int>& cuts) {
    step_result result;
    work->run([&](backend& ops) { result = chained(m, cuts).train(ops, 2, 2); });
    return result;
  }
};

TEST_P(SegmentCuts, ChangeNoBit) {
  const auto m = residual_network();
  const int layers = static_cast<int>(m->layers().size());
  const auto whole = train(m, {});
  EXPECT_GT(whole.values.size(), 15U);
  for (int a = 1; a < layers; ++a)
    expect_same_bits(train(m, {a}), whole, "cut at " + std::to_string(a));
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> cuts;
    for (int c = 1; c < layers; ++c)
      if (random() % 3 == 0) cuts.push_back(c);
    expect_same_bits(train(m, cuts), whole, "cuts at " + ::testing::PrintToString(cuts));
  }
  std::vector<int> everywhere;
  for (int c = 1; c < layers; ++c)
    everywhere.push_back(c);
  expect_same_bits(train(m, everywhere), whole, "a stage for each layer: nothing is fused");
}

INSTANTIATE_TEST_SUITE_P(Backends, SegmentCuts, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "Reference" : "Library"; });

// -- what a minibatch hands to the next one -------------------------------------------

class CarriedState : public ::testing::TestWithParam<bool> {
public:
  static std::shared_ptr<const model> network(bool carried) {
    model_builder b("recurrent");
    const auto time = b.extent("time", 3);
    auto x = b.input("input", dtype::f32, {time, input_axis(4)});
    x = b.add("first", layers::lstm(5, {.carried = carried}), {x});
    x = b.add("second", layers::lstm(3, {.carried = carried}), {x});
    return std::make_shared<const model>(b.build_inference(x));
  }
  std::shared_ptr<device> machine = open_device({});
  std::unique_ptr<stream> work = machine->create_stream({.name = "segment", .threads = 1, .reference = GetParam()});
  memory_pool pool;

  tensor filled(shape dims, unsigned seed) {
    auto t = tensor::allocate(pool, dtype::f32, std::move(dims), memory_use::activations);
    std::mt19937 random(seed);
    for (auto& value : std::span(t.data<float>(), static_cast<std::size_t>(t.elements())))
      value = std::uniform_real_distribution<float>(-1, 1)(random);
    return t;
  }
  // Steps [first, last) of x (B, T, F).
  tensor steps_of(const tensor& x, std::int64_t first, std::int64_t last) {
    const auto row = x.dim(1) * x.dim(2), from = first * x.dim(2), count = (last - first) * x.dim(2);
    auto t = tensor::allocate(pool, dtype::f32, {x.dim(0), last - first, x.dim(2)}, memory_use::activations);
    for (std::int64_t b = 0; b < x.dim(0); ++b)
      std::copy_n(x.data<float>() + b * row + from, count, t.data<float>() + b * count);
    return t;
  }
  static segment_call call_of(const tensor& x) {
    segment_call call;
    call.info.samples = x.dim(0);
    call.info.extents[0] = x.dim(1);
    return call;
  }
};

TEST_P(CarriedState, PiecesOfASequenceContinueEachOther) {
  const auto m = network(true);
  const segment range(m, 0, 2);
  std::vector<std::string> names;
  for (const auto& c : range.carried())
    names.push_back(c.name);
  EXPECT_THAT(names, ::testing::ElementsAre("first.h", "first.c", "second.h", "second.c"));
  EXPECT_TRUE(m->carries());
  EXPECT_FALSE(network(false)->carries());
  work->run([&](backend& ops) {
    std::vector<tensor> weights;
    for (std::size_t i = 0; i < range.parameters().size(); ++i)
      weights.push_back(filled(range.parameters()[i].spec.dims, static_cast<unsigned>(i)));
    const auto x = filled({2, 7, 4}, 50), dy = filled({2, 4, 3}, 51);
    const auto whole = range.forward(ops, call_of(x), {x}, weights, {}, nullptr).at(0);

    std::vector<tensor> handed;
    auto first = call_of(steps_of(x, 0, 3));
    first.carried_out = &handed;
    const auto begun = range.forward(ops, first, {steps_of(x, 0, 3)}, weights, {}, nullptr).at(0);
    ASSERT_EQ(handed.size(), 4U);
    const auto before = handed;
    auto second = call_of(steps_of(x, 3, 7));
    second.carried = before;
    second.carried_out = &handed;
    segment_activations kept;
    const auto rest = range.forward(ops, second, {steps_of(x, 3, 7)}, weights, {}, &kept).at(0);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t i = 0; i < 7 * 3; ++i)
        EXPECT_FLOAT_EQ(whole.data<float>()[b * 21 + i],
                        i < 9 ? begun.data<float>()[b * 9 + i] : rest.data<float>()[b * 12 + i - 9]);
    EXPECT_NE(handed[0].data<float>()[0], before[0].data<float>()[0]);

    // The state is the start of the piece, and no gradient flows into it: as if an LSTM were given it as a constant.
    std::vector<tensor> gradients(weights.size());
    auto back = call_of(steps_of(x, 3, 7));
    range.backward(ops, back, {dy}, weights, std::move(kept), gradients);
    model_builder b("given");
    auto y = b.input("input", dtype::f32, {4, 4});
    const auto h1 = b.input("h1", dtype::f32, {5}), c1 = b.input("c1", dtype::f32, {5});
    const auto h2 = b.input("h2", dtype::f32, {3}), c2 = b.input("c2", dtype::f32, {3});
    y = b.add_multi("first", layers::lstm(5, {.state = true}), {y, h1, c1}).at(0);
    y = b.add_multi("second", layers::lstm(3, {.state = true}), {y, h2, c2}).at(0);
    const segment given(std::make_shared<const model>(b.build_inference(y)), 0, 2);
    segment_activations kept_too;
    given.forward(ops, call_of(x), {steps_of(x, 3, 7), before[0], before[1], before[2], before[3]}, weights, {},
                  &kept_too);
    std::vector<tensor> wanted(weights.size());
    given.backward(ops, back, {dy}, weights, std::move(kept_too), wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      for (std::int64_t n = 0; n < wanted[i].elements(); ++n)
        ASSERT_EQ(gradients[i].data<float>()[n], wanted[i].data<float>()[n]) << i << " " << n;
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, CarriedState, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "Reference" : "Library"; });

// -- what flows where, with a layer that writes down its calls ------------------------

// One weight; passes inputs on; backward hands each input the sum of its output gradients times its weight.
class recording_layer : public layer {
public:
  struct log {
    std::vector<std::string> lines;
  };
  recording_layer(std::shared_ptr<log> l, std::string name, std::size_t outputs, bool parameter)
      : log_(std::move(l)), name_(std::move(name)), outputs_(outputs), parameter_(parameter) {}
  std::string_view kind() const override { return "recording"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> in) const override { return {outputs_, in[0]}; }
  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    return parameter_ ? std::vector<parameter_spec>{{"weight", {2}, {}}} : std::vector<parameter_spec>{};
  }
  forward_result forward(run_context& c, std::span<tensor> in, std::span<const tensor>) const override {
    forward_result result;
    for (std::size_t o = 0; o < outputs_; ++o) {
      result.outputs.push_back(c.ops.allocate_activation(in[0].dims()));
      c.ops.fill(result.outputs.back(), static_cast<float>(o + 1));
    }
    if (c.mode == phase::training) result.saved.push_back(in[0]);
    return result;
  }
  backward_result backward(run_context& c, std::span<tensor> dy, std::span<const tensor>,
                           std::span<const tensor> saved) const override {
    std::string line = name_ + ":";
    for (const auto& g : dy)
      line += g ? " " + std::to_string(static_cast<int>(g.data<float>()[0])) : " none";
    log_->lines.push_back(line + (saved.empty() ? " (nothing saved)" : ""));
    backward_result result;
    for (const bool wanted : c.need_input_gradient)
      result.input_gradients.push_back(wanted ? dy[0] : tensor{});
    if (parameter_) {
      result.weight_gradients.push_back(c.ops.allocate(dtype::f32, {2}, memory_use::gradients));
      c.ops.fill(result.weight_gradients.back(), 1);
    }
    return result;
  }

private:
  std::shared_ptr<log> log_;
  std::string name_;
  std::size_t outputs_;
  bool parameter_;
};

class Segment : public ::testing::Test {
public:
  std::shared_ptr<recording_layer::log> log = std::make_shared<recording_layer::log>();
  std::shared_ptr<device> machine = open_device({});
  std::unique_ptr<stream> work = machine->create_stream({.name = "segment", .reference = true});
  layer_ptr recording(std::string name, std::size_t outputs = 1, bool parameter = true) {
    return std::make_shared<recording_layer>(log, std::move(name), outputs, parameter);
  }
  static tensor filled(backend& ops, shape dims, float value) {
    auto t = ops.allocate_activation(std::move(dims));
    ops.fill(t, value);
    return t;
  }
  static std::vector<tensor> weights_of(backend& ops, const segment& s) {
    std::vector<tensor> weights;
    for (const auto& p : s.parameters())
      weights.push_back(filled(ops, p.spec.dims, 1));
    return weights;
  }
  static std::vector<std::string> names(const segment& s, const std::vector<value_id>& ids) {
    std::vector<std::string> all;
    for (const auto id : ids)
      all.push_back(s.whole().value(id).name);
    return all;
  }
};

// Says to whoever may be told that it ran, and under which name.
class telling_layer final : public recording_layer {
public:
  using recording_layer::recording_layer;
  forward_result forward(run_context& c, std::span<tensor> in, std::span<const tensor> weights) const override {
    if (c.tells != nullptr) c.tells->then([name = std::string(c.name)] { throw error("[layer] " + name + ": told"); });
    return recording_layer::forward(c, in, weights);
  }
  bool keeps_finite() const override { return true; }
};

TEST_F(Segment, GivesLayersTheirNameAndWhomToTell) {
  model_builder b("net", {2});
  const auto out = b.add("deep.inside", std::make_shared<telling_layer>(log, "t", 1, false), {b.input()});
  const auto m = std::make_shared<const model>(b.build_inference(out));
  const segment s(m, 0, 1);
  outcome tells;
  work->run([&](backend& ops) {
    s.forward(ops, {}, {filled(ops, {3, 2}, 1)}, {}, {}, nullptr);
    segment_call call;
    call.tells = &tells;
    s.forward(ops, call, {filled(ops, {3, 2}, 1)}, {}, {}, nullptr);
  });
  EXPECT_THAT([&] { tells.settle(); }, ThrowsMessage<error>("[layer] deep.inside: told"));
}

TEST_F(Segment, SumsReadersInReverseOrderAlsoWhereTheyLieInOtherStages) {
  // 1e8 + 1 - 1e8 in f32 is 0 one way and 1 another: the order is seen in the sum.
  for (const auto& cuts : std::vector<std::vector<int>>{{}, {1}, {2}, {3}, {4}, {1, 2, 3, 4}}) {
    using namespace layers;
    model_builder b("fan", {2});
    const auto v = b.add("v", linear({.in_features = 2, .out_features = 2}), {b.input()});
    const auto x = b.add("first", layers::add(), {v, v});
    const auto y = b.add("second", layers::add(), {x, v});
    const auto z = b.add("third", layers::add(), {v, y});
    const auto m = std::make_shared<const model>(
        b.build_inference(b.add("out", linear({.in_features = 2, .out_features = 3}), {z})));
    work->run([&](backend& ops) {
      const auto one = chained(m, {}).train(ops, 3, 1);
      expect_same_bits(chained(m, cuts).train(ops, 3, 1), one, ::testing::PrintToString(cuts));
    });
  }
}

TEST_F(Segment, PassesOnWhatOnlyGoesThrough) {
  model_builder b("net", {2});
  const auto a = b.add("a", recording("a"), {b.input()});
  const auto mid = b.add("mid", recording("mid"), {a});
  const auto late = b.add("late", layers::add(), {mid, a});
  const auto m = std::make_shared<const model>(b.build_inference(b.add("out", layers::add(), {late, b.input()})));
  const segment s(m, 1, 2);
  EXPECT_THAT(names(s, s.inputs()), ::testing::ElementsAre("a"));
  EXPECT_THAT(names(s, s.outputs()), ::testing::ElementsAre("a", "mid"));
  EXPECT_THAT(s.fed(), ::testing::IsEmpty()) << "the source feeds the image to the stage that reads it";
  EXPECT_THAT(names(s, segment(m, 3, 4).fed()), ::testing::ElementsAre("input"));
  work->run([&](backend& ops) {
    const auto weights = weights_of(ops, s);
    const auto a_value = filled(ops, {3, 2}, 5);
    segment_activations kept;
    auto out = s.forward(ops, {}, {a_value}, weights, {}, &kept);
    ASSERT_EQ(out.size(), 2U);
    EXPECT_EQ(out[0].raw(), a_value.raw());
    EXPECT_EQ(out[1].data<float>()[0], 1);
    std::vector<tensor> gradients(1);
    const auto in =
        s.backward(ops, {}, {filled(ops, {3, 2}, 10), filled(ops, {3, 2}, 7)}, weights, std::move(kept), gradients);
    ASSERT_EQ(in.size(), 1U);
    EXPECT_EQ(in[0].data<float>()[0], 17);
    EXPECT_TRUE(gradients[0]);
  });
}

TEST_F(Segment, AFirstUseHandsTheLastHandleOnSoThatLayersMayWorkInPlace) {
  model_builder b("net", {2});
  const auto a = b.add("a", layers::relu(), {b.input()});
  const auto m = std::make_shared<const model>(b.build_inference(b.add("b", layers::relu(), {a})));
  const segment s(m, 0, 2);
  work->run([&](backend& ops) {
    auto image = filled(ops, {3, 2}, 4);
    const auto* place = image.raw();
    std::vector<tensor> in;
    in.push_back(std::move(image));
    const auto out = s.forward(ops, {.mode = phase::evaluation}, std::move(in), {}, {}, nullptr);
    EXPECT_EQ(out[0].raw(), place);
    const auto kept = filled(ops, {3, 2}, -4);
    const auto other = s.forward(ops, {.mode = phase::evaluation}, {kept}, {}, {}, nullptr);
    EXPECT_NE(other[0].raw(), kept.raw());
    EXPECT_EQ(kept.data<float>()[0], -4) << "the caller's tensor is not written";
  });
}

TEST_F(Segment, SkipsWhatGetsNoGradient) {
  model_builder b("net", {2});
  const auto frozen = b.add("frozen", recording("frozen", 1, false), {b.input()});
  const auto a = b.add("a", recording("a"), {frozen});
  b.add("unread", recording("unread"), {a});
  const auto m = std::make_shared<const model>(b.build_inference(b.add("out", recording("out"), {a})));
  const segment s(m, 0, 4);
  EXPECT_FALSE(s.wants_gradient(frozen));
  EXPECT_TRUE(s.wants_gradient(a));
  work->run([&](backend& ops) {
    const auto weights = weights_of(ops, s);
    segment_activations kept;
    s.forward(ops, {}, {filled(ops, {3, 2}, 1)}, weights, {}, &kept);
    EXPECT_TRUE(kept.saved[0].empty()) << "nothing is kept where nothing flows back";
    auto again = kept;
    std::vector<tensor> gradients(3);
    s.backward(ops, {}, {filled(ops, {3, 2}, 6)}, weights, std::move(kept), gradients);
    EXPECT_THAT(log->lines, ::testing::ElementsAre("out: 6", "a: 6"));
    EXPECT_TRUE(gradients[0]);
    EXPECT_FALSE(gradients[1]) << "the unread layer's";
    log->lines.clear();
    std::vector<tensor> none(3);
    const auto in = s.backward(ops, {}, {tensor{}}, weights, std::move(again), none);
    EXPECT_TRUE(log->lines.empty());
    EXPECT_TRUE(in.empty());
    for (const auto& g : none)
      EXPECT_FALSE(g);
  });
}

TEST_F(Segment, AnUnreadOutputGetsZeros) {
  model_builder b("net", {2});
  const auto three = b.add_multi("three", recording("three", 3), {b.input()});
  const auto m = std::make_shared<const model>(b.build_inference(b.add("out", layers::add(), {three[2], three[0]})));
  for (const int cut : {0, 1}) {
    log->lines.clear();
    const segment s(m, 0, cut == 0 ? 2 : 1);
    if (cut == 1) {
      EXPECT_THAT(names(s, s.outputs()), ::testing::ElementsAre("three.0", "three.2"));
    }
    work->run([&](backend& ops) {
      const auto weights = weights_of(ops, s);
      segment_activations kept;
      const auto out = s.forward(ops, {}, {filled(ops, {3, 2}, 1)}, weights, {}, &kept);
      EXPECT_EQ(out.back().data<float>()[0], cut == 0 ? 4 : 3);
      std::vector<tensor> gradients(1);
      std::vector<tensor> back{filled(ops, {3, 2}, 5)};
      if (cut == 1) back = {tensor{}, filled(ops, {3, 2}, 5)};
      s.backward(ops, {}, back, weights, std::move(kept), gradients);
    });
    EXPECT_THAT(log->lines, ::testing::ElementsAre(cut == 0 ? "three: 5 0 5" : "three: 0 0 5"));
  }
}

// Hands one tensor out as everything: both weight gradients and the input's.
class sharing_layer : public recording_layer {
public:
  sharing_layer() : recording_layer(std::make_shared<log>(), "sharing", 1, true) {}
  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    return {{"left", {1, 2}, {}}, {"right", {1, 2}, {}}};
  }
  backward_result backward(run_context&, std::span<tensor> dy, std::span<const tensor>,
                           std::span<const tensor>) const override {
    return {{dy[0]}, {dy[0], dy[0]}};
  }
};

TEST_F(Segment, AddsGradientsApartThatALayerHandsOutAsOneTensor) {
  model_builder b("net", {2});
  const auto a = b.add("a", recording("a"), {b.input()});
  const auto m =
      std::make_shared<const model>(b.build_inference(b.add("sharing", std::make_shared<sharing_layer>(), {a})));
  const segment s(m, 1, 2);
  work->run([&](backend& ops) {
    const auto weights = weights_of(ops, s);
    std::vector<tensor> gradients(2);
    std::vector<tensor> sent;
    for (const float value : {1.0F, 2.0F, 4.0F}) {
      segment_activations kept;
      s.forward(ops, {}, {filled(ops, {1, 2}, 1)}, weights, {}, &kept);
      sent.push_back(s.backward(ops, {}, {filled(ops, {1, 2}, value)}, weights, std::move(kept), gradients).at(0));
    }
    for (const auto& g : gradients)
      EXPECT_EQ(g.data<float>()[0], 7);
    EXPECT_EQ(sent[0].data<float>()[0], 1) << "a gradient already sent to the stage before";
  });
}

TEST_F(Segment, ObservesEachLayerThatIsRun) {
  const auto m = residual_network();
  const segment s(m, 0, 2);
  std::vector<std::string> seen;
  work->run([&](backend& ops) {
    const auto weights = weights_of(ops, s);
    const segment_call call{.observe = [&](const layer_observation& o) {
      EXPECT_GE(seconds_between(*o.begin, *o.end), 0);
      EXPECT_EQ(o.outputs.size(), o.pass == layer_pass::backward ? 0U : 1U);
      seen.push_back((o.pass == layer_pass::backward ? "B" : "F") + std::to_string(o.layer));
    }};
    segment_activations kept;
    const auto out = s.forward(ops, call, {filled(ops, {2, 3, 6, 6}, 1)}, weights, {}, &kept);
    std::vector<tensor> gradients(2);
    s.backward(ops, call, {filled(ops, out[0].dims(), 1)}, weights, std::move(kept), gradients);
  });
  EXPECT_THAT(seen, ::testing::ElementsAre("F0", "B0")) << "the ReLU is part of layer 0";
}

TEST_F(Segment, RefusesAnotherNumberOfTensorsAndLayersThatAreNotThere) {
  const auto m = residual_network();
  const int layers = static_cast<int>(m->layers().size());
  EXPECT_THROW(segment(m, 2, 2), std::logic_error);
  EXPECT_THROW(segment(m, -1, 2), std::logic_error);
  EXPECT_THROW(segment(m, 0, layers + 1), std::logic_error);
  const segment s(m, 0, 2);
  work->run([&](backend& ops) {
    const auto weights = weights_of(ops, s);
    EXPECT_THROW(s.forward(ops, {}, {}, weights, {}, nullptr), std::logic_error);
    EXPECT_THROW(s.forward(ops, {}, {filled(ops, {2, 3, 6, 6}, 1)}, {}, {}, nullptr), std::logic_error);
    std::vector<tensor> gradients(2);
    EXPECT_THROW(s.backward(ops, {}, {}, weights, {}, gradients), std::logic_error);
    EXPECT_THROW(s.backward(ops, {}, {filled(ops, {2, 5, 6, 6}, 1)}, weights, {}, gradients), std::logic_error)
        << "no activations";
  });
}

TEST(NameHash, IsFnv) {
  EXPECT_EQ(name_hash(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(name_hash("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(name_hash("foobar"), 0x85944171f73967e8ULL);
}

} // namespace
} // namespace penstock
