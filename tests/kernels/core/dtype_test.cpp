// Element types: safetensors' names, and how bf16 rounds.
#include "kernels/dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace penstock {
namespace {

float of_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

TEST(Dtype, NamesAndSizesAreSafetensors) {
  for (const auto& [type, name, size] : {std::tuple{dtype::f32, "F32", 4U},
                                         {dtype::bf16, "BF16", 2U},
                                         {dtype::i64, "I64", 8U},
                                         {dtype::i32, "I32", 4U},
                                         {dtype::u8, "U8", 1U}}) {
    EXPECT_EQ(name_of(type), name);
    EXPECT_EQ(size_of(type), size);
    EXPECT_EQ(dtype_named(name), type);
    EXPECT_EQ(is_floating(type), type == dtype::f32 || type == dtype::bf16);
  }
  for (const auto* unknown : {"", "f32", "F64", "F16", "BF16 "})
    EXPECT_EQ(dtype_named(unknown), std::nullopt) << unknown;
  EXPECT_THROW(size_of(static_cast<dtype>(9)), std::logic_error);
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(bf16_from_float(1.0F), 0x3f80);
  EXPECT_EQ(bf16_from_float(of_bits(0x3f808000)), 0x3f80) << "a tie goes to even";
  EXPECT_EQ(bf16_from_float(of_bits(0x3f818000)), 0x3f82) << "a tie goes to even";
  EXPECT_EQ(bf16_from_float(of_bits(0x3f808001)), 0x3f81);
  EXPECT_EQ(bf16_from_float(of_bits(0x3f807fff)), 0x3f80);
  EXPECT_EQ(bf16_from_float(-1.0F), 0xbf80);
  EXPECT_EQ(bf16_from_float(-0.0F), 0x8000);
  EXPECT_EQ(bf16_from_float(of_bits(0x00008001)), 0x0001) << "denormals round too";
}

TEST(Bf16, KeepsInfinityAndNan) {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_from_bf16(bf16_from_float(infinity)), infinity);
  EXPECT_EQ(float_from_bf16(bf16_from_float(-infinity)), -infinity);
  EXPECT_EQ(float_from_bf16(bf16_from_float(std::numeric_limits<float>::max())), infinity)
      << "nearest is beyond the largest";
  for (const std::uint32_t nan : {0x7fc00000U, 0x7f800001U, 0xff80ffffU, 0x7fffffffU, 0xffffffffU})
    EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(of_bits(nan))))) << std::hex << nan;
}

TEST(Bf16, EveryValueComesBackAsItWas) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = float_from_bf16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(bf16_from_float(value), bits);
  }
}

TEST(F16, EveryValueIsExact) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = float_from_f16(static_cast<std::uint16_t>(bits));
    const int exponent = static_cast<int>(bits >> 10 & 0x1f);
    const auto fraction = static_cast<float>(bits & 0x3ff);
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if (exponent == 31) {
      ASSERT_EQ(std::isnan(value), fraction != 0) << bits;
      ASSERT_EQ(std::isinf(value), fraction == 0) << bits;
      continue;
    }
    const float magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(std::abs(value), magnitude) << bits;
  }
}

} // namespace
} // namespace penstock
