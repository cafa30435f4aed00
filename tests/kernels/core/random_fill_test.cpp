// Random values a vector at a time: to the last bit those of the definition's plain loops, on every instruction set.
#include "kernels/initialise.hpp"
#include "kernels/random_fill.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

namespace penstock {
namespace {

constexpr std::uint64_t seed = 11;
constexpr const char* name = "features.0.weight";

float plain_uniform(const random_words& words, std::int64_t i, double range) {
  const double u = (static_cast<double>(words[i] >> 11) + 0.5) * 0x1p-53;
  return static_cast<float>(range * (2 * u - 1));
}

float plain_normal(const random_words& words, std::int64_t i, double deviation) {
  const auto word = words[i / 2];
  const double u1 = (static_cast<double>(word >> 32) + 0.5) * 0x1p-32;
  const double u2 = (static_cast<double>(word & 0xFFFFFFFFU) + 0.5) * 0x1p-32;
  const double radius = deviation * std::sqrt(-2 * std::log(u1));
  const double angle = 2 * std::numbers::pi * u2;
  return static_cast<float>(radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

using plain_value = float (*)(const random_words&, std::int64_t, double);
using fill_range = void (*)(float*, std::int64_t, std::int64_t, const random_words&, double, vector_width);

struct filled {
  const char* what;
  plain_value plain;
  fill_range fill;
};
constexpr filled kinds[] = {{"uniform", plain_uniform, fill_uniform}, {"normal", plain_normal, fill_normal}};

std::vector<vector_width> widths_here() {
  std::vector<vector_width> widths{vector_width::baseline};
  for (const auto wider : {vector_width::avx2, vector_width::avx512})
    if (widest_vectors() >= wider) widths.push_back(wider);
  return widths;
}

std::vector<float> plain_values(const filled& kind, std::int64_t count, double value) {
  const random_words words(seed, name);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = kind.plain(words, i, value);
  return values;
}

void expect_same_bits(const std::vector<float>& values, const std::vector<float>& wanted, std::size_t begin,
                      std::size_t end) {
  ASSERT_EQ(values.size(), wanted.size());
  if (std::memcmp(&values[begin], &wanted[begin], (end - begin) * sizeof(float)) == 0) return;
  for (std::size_t i = begin; i < end; ++i)
    ASSERT_EQ(std::memcmp(&values[i], &wanted[i], sizeof(float)), 0)
        << "element " << i << " is " << values[i] << ", wanted " << wanted[i];
}

TEST(RandomFill, IsThePlainLoopsBitForBitOnEveryInstructionSet) {
  constexpr std::int64_t many = 4'000'001; // some twenty of them in doubt
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.what);
    const double value = static_cast<double>(0.0589F);
    const auto wanted = plain_values(kind, many, value);
    for (const auto width : widths_here()) {
      SCOPED_TRACE("width " + std::to_string(static_cast<int>(width)));
      std::vector<float> values(wanted.size());
      kind.fill(values.data(), 0, many, random_words(seed, name), value, width);
      expect_same_bits(values, wanted, 0, wanted.size());
    }
  }
}

TEST(RandomFill, FillsAnyRangeAndNothingElse) {
  constexpr std::int64_t size = 700;
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.what);
    const auto wanted = plain_values(kind, size, 1);
    for (const auto width : widths_here())
      for (const std::int64_t begin : {0, 2, 254, 256, 258, 310})
        for (const std::int64_t count : {0, 1, 2, 3, 15, 16, 17, 255, 256, 257, 258, 389}) {
          SCOPED_TRACE("width " + std::to_string(static_cast<int>(width)) + ", " + std::to_string(count) + " from " +
                       std::to_string(begin));
          std::vector<float> values(static_cast<std::size_t>(size), -7.0F);
          kind.fill(values.data() + begin, begin, begin + count, random_words(seed, name), 1, width);
          auto around = wanted;
          std::fill_n(around.begin(), begin, -7.0F);
          std::fill(around.begin() + begin + count, around.end(), -7.0F);
          expect_same_bits(values, around, 0, values.size());
        }
  }
}

TEST(RandomFill, KeepsTheBitsOfExtremeDeviations) {
  constexpr std::int64_t count = 20'001;
  constexpr float greatest = std::numeric_limits<float>::max(), infinite = std::numeric_limits<float>::infinity();
  constexpr float least = std::numeric_limits<float>::denorm_min(), normal = std::numeric_limits<float>::min();
  for (const auto& kind : kinds)
    for (const float value : {0.0F, -0.0F, -0.5F, least, 100 * least, normal, greatest / 4, greatest, infinite}) {
      SCOPED_TRACE(std::string(kind.what) + " of " + std::to_string(value));
      const auto wanted = plain_values(kind, count, value);
      for (const auto width : widths_here()) {
        std::vector<float> values(wanted.size());
        kind.fill(values.data(), 0, count, random_words(seed, name), value, width);
        expect_same_bits(values, wanted, 0, wanted.size());
      }
    }
}

TEST(RandomFill, IsWhatInitialiseGivesByManyThreads) {
  constexpr std::int64_t many = 5'000'003; // more than one chunk a thread, and no whole number of chunks
  const float value = 0.25F;
  for (const auto kind : {initializer_kind::uniform, initializer_kind::normal}) {
    const auto wanted = plain_values(kinds[kind == initializer_kind::normal ? 1 : 0], many, value);
    std::vector<float> values(wanted.size());
    initialise(values, {kind, value}, seed, name);
    expect_same_bits(values, wanted, 0, wanted.size());
  }
}

} // namespace
} // namespace penstock
