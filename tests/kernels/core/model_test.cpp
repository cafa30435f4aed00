// The graph that a builder makes, what crosses its cuts, and what the builder refuses.
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"

#include <gmock/gmock.h>

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

layer_ptr small_linear(std::int64_t in, std::int64_t out) {
  return layers::linear({.in_features = in, .out_features = out});
}

// Any number of outputs, each like the input; parameters as told.
class any_layer : public layer {
public:
  any_layer(std::size_t outputs, std::vector<std::string> parameters = {}, std::vector<std::string> states = {})
      : outputs_(outputs), parameters_(std::move(parameters)), states_(std::move(states)) {}
  std::string_view kind() const override { return "any"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> in) const override { return {outputs_, in[0]}; }
  std::vector<parameter_spec> parameters(std::span<const tensor_spec>) const override {
    std::vector<parameter_spec> specs;
    for (const auto& n : parameters_)
      specs.push_back({n, {2}, {}});
    return specs;
  }
  std::vector<state_spec> states(std::span<const tensor_spec>) const override {
    std::vector<state_spec> specs;
    for (const auto& n : states_)
      specs.push_back({n, dtype::f32, {2}, 0});
    return specs;
  }
  forward_result forward(run_context&, std::span<tensor>, std::span<const tensor>) const override { return {}; }
  backward_result backward(run_context&, std::span<tensor>, std::span<const tensor>,
                           std::span<const tensor>) const override {
    return {};
  }

private:
  std::size_t outputs_;
  std::vector<std::string> parameters_;
  std::vector<std::string> states_;
};

layer_ptr any(std::size_t outputs, std::vector<std::string> parameters = {}, std::vector<std::string> states = {}) {
  return std::make_shared<any_layer>(outputs, std::move(parameters), std::move(states));
}

std::vector<std::string> names_crossing(const model& m, int cut) {
  std::vector<std::string> names;
  for (const auto id : m.crossing(cut))
    names.push_back(m.value(id).name);
  return names;
}

TEST(Model, KnowsNamesShapesAndReaders) {
  model_builder b("net", {4});
  const auto a = b.add("a", small_linear(4, 6), {b.input()});
  const auto r = b.add("r", layers::relu(), {a});
  const auto s = b.add("s", layers::add(), {r, a});
  const auto m = b.build(b.add("out", small_linear(6, 3), {s}));
  EXPECT_EQ(m.name(), "net");
  EXPECT_EQ(m.classes(), 3);
  EXPECT_EQ(m.value(m.input()).spec.dims, (shape{1, 4}));
  EXPECT_EQ(m.value(a).producer, 0);
  EXPECT_THAT(m.value(a).consumers, ElementsAre(1, 2));
  EXPECT_EQ(m.parameters(0).at(0).name, "a.weight");
  EXPECT_EQ(m.parameters(0).at(1).name, "a.bias");
  EXPECT_EQ(m.parameter_count(), 4 * 6 + 6 + 6 * 3 + 3);
  EXPECT_EQ(m.input_specs(2, 9).at(1).dims, (shape{9, 6}));
  EXPECT_THROW(m.parameters(4), std::out_of_range);
}

TEST(Model, ACutIsCrossedByWhatIsReadBehindIt) {
  model_builder b("net", {4});
  const auto a = b.add("a", small_linear(4, 4), {b.input()});
  const auto r = b.add("r", layers::relu(), {a});
  const auto late = b.add("late", layers::add(), {r, b.input()}); // the input skips two layers
  b.add("unread", layers::relu(), {r});
  const auto m = b.build(b.add("out", layers::add(), {late, a}));
  EXPECT_THAT(names_crossing(m, 0), ElementsAre()) << "inputs are fed, not relayed";
  EXPECT_THAT(names_crossing(m, 1), ElementsAre("a"));
  EXPECT_THAT(names_crossing(m, 2), ElementsAre("a", "r"));
  EXPECT_THAT(names_crossing(m, 3), ElementsAre("a", "r", "late"));
  EXPECT_THAT(names_crossing(m, 4), ElementsAre("a", "late"));
  EXPECT_THAT(names_crossing(m, 5), ElementsAre()) << "the loss reads the output where it is";
  EXPECT_THAT(m.fed(0, 5), ElementsAre(m.input(), m.inputs().at(1).value));
  EXPECT_THAT(m.fed(1, 2), ElementsAre());
  EXPECT_THAT(m.fed(2, 3), ElementsAre(m.input()));
}

TEST(Model, AResultCrossesEveryCutBehindIt) {
  model_builder b("net", {4});
  const auto out = b.add("out", small_linear(4, 3), {b.input()});
  b.add("unread", layers::relu(), {out});
  const auto m = b.build_inference(out);
  EXPECT_THAT(names_crossing(m, 1), ElementsAre("out"));
  EXPECT_THAT(names_crossing(m, 2), ElementsAre("out"));
}

TEST(ModelBuilder, NamesEachOutputOfALayer) {
  model_builder b("net", {4});
  const auto two = b.add_multi("two", any(2), {b.input()});
  ASSERT_EQ(two.size(), 2U);
  const auto m = b.build(two[1]);
  EXPECT_EQ(m.value(two[0]).name, "two.0");
  EXPECT_EQ(m.value(two[1]).name, "two.1");
}

TEST(ModelBuilder, RefusesNamesThatAreTaken) {
  model_builder b("net", {4});
  b.add("a", layers::relu(), {b.input()});
  EXPECT_THAT([&] { b.add("a", layers::relu(), {b.input()}); },
              ThrowsMessage<usage_error>("net: two layers are named 'a'; names must be unique"));
  EXPECT_THROW(b.add("input", layers::relu(), {b.input()}), usage_error);
}

TEST(ModelBuilder, RefusesALayerNamedAsAnothersOutput) {
  model_builder first("net", {4});
  first.add_multi("two", any(2), {first.input()});
  EXPECT_THROW(first.add("two.1", layers::relu(), {first.input()}), usage_error) << "messages go by these names";
  model_builder second("net", {4});
  second.add("two.1", layers::relu(), {second.input()});
  EXPECT_THROW(second.add_multi("two", any(2), {second.input()}), usage_error);
}

TEST(ModelBuilder, SaysWhichLayerRefusesItsInput) {
  model_builder b("net", {4});
  EXPECT_THAT([&] { b.add("fc", small_linear(5, 3), {b.input()}); },
              ThrowsMessage<usage_error>(::testing::StartsWith("net: fc: ")));
  EXPECT_NO_THROW(b.add("fc", small_linear(4, 3), {b.input()})) << "a refused layer leaves nothing behind";
}

TEST(ModelBuilder, RefusesAValueOfNoLayer) {
  model_builder b("net", {4});
  EXPECT_ANY_THROW(b.add("a", layers::relu(), {value_id{7}}));
  EXPECT_ANY_THROW(b.add("a", layers::relu(), {value_id{-1}}));
}

TEST(ModelBuilder, RefusesAnOutputThatIsNoClassifiers) {
  model_builder b("net", {3, 8, 8});
  const auto x = b.add("r", layers::relu(), {b.input()});
  EXPECT_THAT(
      [&] { b.build(x); },
      ThrowsMessage<usage_error>("net: the output r has shape [1, 3, 8, 8]; a classifier's output is [N, classes]"));
}

TEST(Model, AParameterWithoutANameIsCalledLikeItsLayer) {
  model_builder b("net", {4});
  const auto m = b.build(b.add("class_token", any(1, {"", "w"}), {b.input()}));
  EXPECT_EQ(m.parameters(0).at(0).name, "class_token");
  EXPECT_EQ(m.parameters(0).at(1).name, "class_token.w");
}

TEST(ModelBuilder, RefusesTwoParametersOrStatesOfOneName) {
  const auto build = [](layer_ptr a, layer_ptr ab) {
    model_builder b("net", {4});
    const auto x = b.add("a", std::move(a), {b.input()});
    return b.build(b.add("a.b", std::move(ab), {x}));
  };
  EXPECT_THAT([&] { build(any(1, {"b.w"}), any(1, {"w"})); },
              ThrowsMessage<usage_error>("net: two parameters are named 'a.b.w'"));
  EXPECT_THROW(build(any(1, {}, {"b.w"}), any(1, {}, {"w"})), usage_error) << "states share the files with parameters";
  EXPECT_THROW(build(any(1, {"b.w"}), any(1, {}, {"w"})), usage_error);
  EXPECT_NO_THROW(build(any(1, {"w"}, {"v"}), any(1, {"w"}, {"v"})));
}

} // namespace
} // namespace penstock
