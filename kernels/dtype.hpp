// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

/// f64 is for sums that decide something, not for activations or weights.
enum class dtype : std::uint8_t { f32, bf16, i64, i32, u8, f64 };

/// Bytes of one element.
std::size_t size_of(dtype type);

/// The safetensors name: F32, BF16, I64, I32, U8, F64.
std::string_view name_of(dtype type);

/// The type with that safetensors name, or nothing; F64 is in no file or message of ours.
std::optional<dtype> dtype_named(std::string_view name);

/// True for the types that gradients can have: f32 and bf16.
bool is_floating(dtype type);

/// Rounds to nearest even; NaN stays NaN.
std::uint16_t bf16_from_float(float value);
float float_from_bf16(std::uint16_t bits);
/// IEEE half precision, exactly.
float float_from_f16(std::uint16_t bits);

} // namespace penstock
