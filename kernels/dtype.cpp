// Names and sizes of element types, and bf16 rounding.
#include "kernels/dtype.hpp"

#include "kernels/check.hpp"

#include <array>
#include <bit>

namespace penstock {

namespace {

struct type_facts {
  dtype type;
  std::size_t size;
  std::string_view name;
};

constexpr std::array<type_facts, 6> facts{{{dtype::f32, 4, "F32"},
                                           {dtype::bf16, 2, "BF16"},
                                           {dtype::i64, 8, "I64"},
                                           {dtype::i32, 4, "I32"},
                                           {dtype::u8, 1, "U8"},
                                           {dtype::f64, 8, "F64"}}};

const type_facts& facts_of(dtype type) {
  const auto index = static_cast<std::size_t>(type);
  check(index < facts.size(), "unknown dtype");
  return facts[index];
}

} // namespace

std::size_t size_of(dtype type) {
  return facts_of(type).size;
}
std::string_view name_of(dtype type) {
  return facts_of(type).name;
}
bool is_floating(dtype type) {
  return type == dtype::f32 || type == dtype::bf16;
}

std::optional<dtype> dtype_named(std::string_view name) {
  for (const auto& f : facts)
    if (f.name == name && f.type != dtype::f64) return f.type;
  return std::nullopt;
}

std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U); // quiet NaN
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

float float_from_f16(std::uint16_t bits) {
  const auto sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float subnormal = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -subnormal : subnormal;
}

float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

} // namespace penstock
