// Starting values: right spread, and a function of seed and name alone.
#include "apps/models/registry.hpp"
#include "kernels/initialise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

namespace penstock {
namespace {

std::vector<float> values(const initializer& init, std::uint64_t seed, std::string_view name, std::size_t count) {
  std::vector<float> out(count);
  initialise(out, init, seed, name);
  return out;
}

double mean(const std::vector<float>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double moment(const std::vector<float>& x, int power) {
  double sum = 0;
  for (const float v : x)
    sum += std::pow(static_cast<double>(v), power);
  return sum / static_cast<double>(x.size());
}

constexpr std::size_t many = 3'000'001; // more than one chunk, odd

TEST(Initialise, NormalHasTheMomentsOfANormal) {
  const auto x = values({initializer_kind::normal, 0.5F}, 7, "a", many);
  EXPECT_NEAR(mean(x), 0, 0.002);
  EXPECT_NEAR(moment(x, 2), 0.25, 0.002);
  EXPECT_NEAR(moment(x, 4) / std::pow(moment(x, 2), 2), 3, 0.03);
  double neighbours = 0; // pairs come from one word; they must not be correlated
  for (std::size_t i = 0; i + 1 < x.size(); ++i)
    neighbours += static_cast<double>(x[i]) * x[i + 1];
  EXPECT_NEAR(neighbours / static_cast<double>(x.size()), 0, 0.002);
}

TEST(Initialise, UniformStaysInItsRangeAndFillsIt) {
  const auto x = values({initializer_kind::uniform, 2.0F}, 7, "a", many);
  EXPECT_NEAR(mean(x), 0, 0.01);
  EXPECT_NEAR(moment(x, 2), 4.0 / 3, 0.01);
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  EXPECT_GE(*least, -2.0F);
  EXPECT_LT(*least, -1.999F);
  EXPECT_LE(*most, 2.0F);
  EXPECT_GT(*most, 1.999F);
}

TEST(Initialise, ConstantIsConstant) {
  for (const float v : values({initializer_kind::constant, 1.5F}, 1, "a", 17))
    EXPECT_EQ(v, 1.5F);
}

TEST(Initialise, ElementsDoNotDependOnHowManyThereAre) {
  const initializer init{initializer_kind::normal, 1};
  const auto all = values(init, 3, "a", many);
  const auto some = values(init, 3, "a", 1001);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
}

TEST(Initialise, SeedAndNameChangeTheValues) {
  const initializer init{initializer_kind::uniform, 1};
  const auto a = values(init, 3, "a", 64);
  EXPECT_EQ(a, values(init, 3, "a", 64));
  EXPECT_NE(a, values(init, 4, "a", 64));
  EXPECT_NE(a, values(init, 3, "b", 64));
}

// A golden value, so that a change of the generator, which would change every run, is seen. Words from the NumPy twin.
TEST(Initialise, GeneratorIsTheDocumentedOne) {
  const auto u = values({initializer_kind::uniform, 1}, 20, "conv1.weight", 2);
  EXPECT_FLOAT_EQ(u[0], -0.190052882F);
  EXPECT_FLOAT_EQ(u[1], 0.128667265F);
  const auto n = values({initializer_kind::normal, 1}, 20, "conv1.weight", 3);
  EXPECT_FLOAT_EQ(n[0], -0.531449556F);
  EXPECT_FLOAT_EQ(n[1], -1.23508227F);
  EXPECT_FLOAT_EQ(n[2], 0.21779637F);
}

TEST(InitialWeights, ParametersOfAModelDependOnTheirNamesAlone) {
  memory_pool pool;
  apps::model_options options;
  const auto narrow = initial_weights(apps::find_model("resnet18").build(options), 5, pool);
  options.classes = 4; // another head; everything before it stays
  const auto other = initial_weights(apps::find_model("resnet18").build(options), 5, pool);
  ASSERT_EQ(narrow.size(), 62U);
  for (const auto& [name, value] : narrow) {
    EXPECT_EQ(value.type(), dtype::f32);
    EXPECT_TRUE(value.is_plain());
    if (name.starts_with("fc.")) continue;
    EXPECT_EQ(std::memcmp(value.raw(), other.at(name).raw(), value.bytes()), 0) << name;
  }
}

TEST(InitialStates, AreZeroMeanUnitVarianceAndNoBatches) {
  memory_pool pool;
  const auto states = initial_states(apps::find_model("resnet18").build({}), pool);
  ASSERT_EQ(states.size(), 60U);
  EXPECT_EQ(states.at("bn1.running_mean").data<float>()[63], 0.0F);
  EXPECT_EQ(states.at("layer4.1.bn2.running_var").data<float>()[511], 1.0F);
  EXPECT_EQ(states.at("bn1.num_batches_tracked").data<std::int64_t>()[0], 0);
}

} // namespace
} // namespace penstock
