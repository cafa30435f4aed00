// Starting values: right spread, and a function of seed and name alone.
#include "apps/models/registry.hpp"
#include "kernels/initialise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
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

// Of a standard normal within +-a: variance 1 - 2 a phi(a) / (2 Phi(a) - 1).
double truncated_variance(double a) {
  const double density = std::exp(-a * a / 2) / std::sqrt(2 * std::numbers::pi);
  return 1 - 2 * a * density / std::erf(a / std::numbers::sqrt2);
}

TEST(Initialise, TruncatedNormalHasTheMomentsOfOne) {
  for (const double deviations : {0.125, 1.0, 2.0}) {
    const auto cut = static_cast<float>(0.5 * deviations);
    const auto x = values(truncated_normal(0.5F, cut), 7, "a", many);
    EXPECT_NEAR(mean(x), 0, 0.002);
    EXPECT_NEAR(moment(x, 2) / 0.25, truncated_variance(deviations), 0.005) << deviations;
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    EXPECT_GE(*least, -cut);
    EXPECT_LT(*least, -0.999F * cut);
    EXPECT_LE(*most, cut);
    EXPECT_GT(*most, 0.999F * cut);
    const auto at_the_cut = std::count_if(x.begin(), x.end(), [&](float v) { return std::abs(v) > 0.99F * cut; });
    EXPECT_LT(at_the_cut, static_cast<std::ptrdiff_t>(many / 80)); // drawn again, not moved to the cut
  }
}

TEST(Initialise, TruncatedNormalIsTheNormalWhereThatIsWithin) {
  const auto plain = values({initializer_kind::normal, 0.5F}, 7, "a", 10'001);
  EXPECT_EQ(values(truncated_normal(0.5F, 20), 7, "a", 10'001), plain);
  const auto cut = values(truncated_normal(0.5F, 1), 7, "a", 10'001);
  std::size_t drawn_again = 0;
  for (std::size_t i = 0; i < plain.size(); ++i)
    if (std::abs(plain[i]) <= 1)
      EXPECT_EQ(cut[i], plain[i]) << i;
    else
      ++drawn_again;
  EXPECT_NEAR(static_cast<double>(drawn_again) / 10'001, 0.0455, 0.01);
  EXPECT_EQ(values(truncated_normal(0.5F, 1), 7, "a", 501), std::vector<float>(cut.begin(), cut.begin() + 501));
}

TEST(Initialise, APaddingRowIsZeroAndTheRestIsAsItWas) {
  const auto plain = values({initializer_kind::normal, 1}, 7, "a", 800'000);
  const auto padded = values(with_zero_row({initializer_kind::normal, 1}, 655, 400), 7, "a", 800'000);
  for (std::size_t i = 0; i < plain.size(); ++i)
    ASSERT_EQ(padded[i], i / 400 == 655 ? 0.0F : plain[i]) << i; // the row lies on both sides of a chunk's end
}

TEST(Initialise, XavierBoundsAreGlorotsAndBengios) {
  EXPECT_EQ(xavier_uniform(768, 3072).kind, initializer_kind::uniform);
  EXPECT_FLOAT_EQ(xavier_uniform(768, 3072).value, std::sqrt(6.0F / 3840));
  EXPECT_EQ(xavier_normal(768, 3072, 2).kind, initializer_kind::normal);
  EXPECT_FLOAT_EQ(xavier_normal(768, 3072, 2).value, 2 * std::sqrt(2.0F / 3840));
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
