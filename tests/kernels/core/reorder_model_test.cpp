// The same model in another order of layers: names, parameters and arithmetic stay.
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/reorder_model.hpp"

#include <gmock/gmock.h>

namespace penstock {
namespace {

// a, then b and c side by side, then their sum, then the head.
model diamond() {
  using namespace layers;
  model_builder m("diamond", {16});
  const auto a = m.add("a", linear({.in_features = 16, .out_features = 8}), {m.input()});
  const auto b = m.add("b", linear({.in_features = 8, .out_features = 8}), {a});
  const auto c = m.add("c", linear({.in_features = 8, .out_features = 8}), {a});
  const auto sum = m.add("sum", add(), {b, c});
  return m.build(m.add("head", linear({.in_features = 8, .out_features = 4}), {sum}));
}

std::vector<std::string> names_of(const model& m) {
  std::vector<std::string> names;
  for (const auto& l : m.layers())
    names.push_back(l.name);
  return names;
}

TEST(ReorderedModel, KeepsLayersParametersAndWhoReadsWhat) {
  const auto before = diamond();
  const std::vector<std::string> order{"a", "c", "b", "sum", "head"};
  const auto after = reordered(before, order);
  EXPECT_EQ(names_of(after), order);
  EXPECT_EQ(after.parameter_count(), before.parameter_count());
  EXPECT_EQ(after.classes(), 4);
  const auto& sum = after.layers()[3];
  ASSERT_EQ(sum.inputs.size(), 2U);
  EXPECT_EQ(after.value(sum.inputs[0]).name, "b") << "arguments keep their places";
  EXPECT_EQ(after.value(sum.inputs[1]).name, "c");
  EXPECT_EQ(after.crossing(2).size(), 2U) << "a, which b still reads, and c";
}

TEST(ReorderedModel, RefusesWhatIsNoOrderOfTheModel) {
  const auto m = diamond();
  const auto refusal = [&](const std::vector<std::string>& order) -> std::string {
    try {
      reordered(m, order);
    } catch (const usage_error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({"a", "b", "c", "sum"}), ::testing::HasSubstr("found 4 layers, wanted the 5"));
  EXPECT_THAT(refusal({"b", "a", "c", "sum", "head"}), ::testing::HasSubstr("'b' comes before 'a'"));
  EXPECT_THAT(refusal({"a", "b", "c", "sun", "head"}), ::testing::HasSubstr("no layer 'sun'"));
  EXPECT_THAT(refusal({"a", "b", "b", "sum", "head"}), ::testing::HasSubstr("two layers are named 'b'"));
}

} // namespace
} // namespace penstock
