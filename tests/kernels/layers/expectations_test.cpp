// What layers say of inputs that are not as they want them.
#include "kernels/check.hpp"
#include "kernels/layers/expectations.hpp"

#include <gtest/gtest.h>

namespace penstock::layers {
namespace {

template <class Function>
std::string refusal_of(Function function) {
  try {
    function();
  } catch (const usage_error& refused) {
    return refused.what();
  }
  return "";
}

using specs = std::vector<tensor_spec>;

std::string refusal(const specs& inputs, std::initializer_list<input_rule> rules) {
  return refusal_of([&] { expect_inputs(inputs, rules); });
}

TEST(ExpectInputs, TakesAnyTypeAndRankThatItsRuleNames) {
  EXPECT_EQ(refusal({}, {}), "");
  EXPECT_EQ(refusal({{dtype::f32, {3}}}, {{}}), "");
  EXPECT_EQ(refusal({{dtype::i64, {3, 7}}, {dtype::f32, {3, 7, 5}}, {dtype::u8, {}}},
                    {{dtype::i64, "[N, T]"}, {dtype::f32, "[N, T, D]"}, {dtype::u8}}),
            "");
  EXPECT_EQ(refusal({{dtype::f32, {1, 2, 3, 4}}}, {images}), "");
}

TEST(ExpectInputs, CountsFirst) {
  EXPECT_EQ(refusal({}, {{}}), "0 inputs, 1 is wanted");
  EXPECT_EQ(refusal({{dtype::u8, {1}}}, {{}, {}}), "1 input, 2 are wanted");
  EXPECT_EQ(refusal({{}, {}}, {}), "2 inputs, 0 are wanted");
}

TEST(ExpectInputs, NamesTheTypeFoundAndTheOneWanted) {
  EXPECT_EQ(refusal({{dtype::u8, {1}}}, {{}}), "input is U8, F32 is wanted");
  EXPECT_EQ(refusal({{dtype::f32, {1}}}, {{dtype::i64}}), "input is F32, I64 is wanted");
  EXPECT_EQ(refusal({{dtype::f32, {1}}, {dtype::i64, {1}}}, {{}, {}}), "input 1 is I64, F32 is wanted");
}

TEST(ExpectInputs, NamesTheShapeFoundAndTheAxesWanted) {
  EXPECT_EQ(refusal({{dtype::f32, {4}}}, {images}), "input has shape [4], [N, C, H, W] is wanted");
  EXPECT_EQ(refusal({{dtype::i64, {4}}, {dtype::i64, {4, 2, 2}}}, {{dtype::i64, "[N]"}, {dtype::i64, "[N, T]"}}),
            "input 1 has shape [4, 2, 2], [N, T] is wanted");
  EXPECT_EQ(refusal({{dtype::f32, {}}}, {{dtype::f32, "[N]"}}), "input has shape [], [N] is wanted");
}

TEST(ExpectInputs, DotsStandForAnyNumberOfAxes) {
  const input_rule rows{dtype::f32, "[N, C, ...]"};
  for (const shape& dims : {shape{2, 3}, shape{2, 3, 4}, shape{2, 3, 4, 5, 6}})
    EXPECT_EQ(refusal({{dtype::f32, dims}}, {rows}), "") << to_string(dims);
  EXPECT_EQ(refusal({{dtype::f32, {2}}}, {rows}), "input has shape [2], [N, C, ...] is wanted");
}

TEST(ExpectAllInputs, HoldsEachToOneRuleAndWantsALeastNumber) {
  const auto refused = [](const specs& inputs, const input_rule& rule) {
    return refusal_of([&] { expect_all_inputs(inputs, 2, rule); });
  };
  EXPECT_EQ(refused({{}, {}, {}}, {}), "");
  EXPECT_EQ(refused({{}}, {}), "1 input, 2 or more are wanted");
  EXPECT_EQ(refused({{dtype::i64, {1}}, {dtype::i64, {1}}, {dtype::f32, {1}}}, {dtype::i64}),
            "input 2 is F32, I64 is wanted");
}

} // namespace
} // namespace penstock::layers
