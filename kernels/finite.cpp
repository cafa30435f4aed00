// Scans for NaN and infinities by their exponent bits, which compiles to integer vectors under any floating-point
// flags.
#include "kernels/finite.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace penstock {
namespace {

constexpr std::size_t block = 1024; // values looked through before the result is asked for

// `Word` of a float type whose exponent, in place, is `exponent`.
template <class Word, class Value>
bool any_nonfinite(const Value* values, std::size_t count, Word exponent) {
  Word bad = 0;
  for (std::size_t i = 0; i < count; ++i)
    bad |= static_cast<Word>((std::bit_cast<Word>(values[i]) & exponent) == exponent ? 1 : 0);
  return bad != 0;
}

template <class Word, class Value>
std::optional<std::size_t> first_of(std::span<const Value> values, Word exponent) {
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const auto count = std::min(block, values.size() - begin);
    if (!any_nonfinite<Word>(values.data() + begin, count, exponent)) continue;
    for (std::size_t i = begin;; ++i)
      if (any_nonfinite<Word>(values.data() + i, 1, exponent)) return i;
  }
  return std::nullopt;
}

constexpr std::uint32_t f32_exponent = 0x7f800000U;
constexpr std::uint16_t bf16_exponent = 0x7f80U;

std::optional<std::size_t> first_stored(const tensor& t) {
  const auto count = static_cast<std::size_t>(t.stored_elements());
  if (t.type() == dtype::f32) return first_nonfinite({t.data<float>(), count});
  if (t.type() == dtype::bf16)
    return first_of<std::uint16_t, std::uint16_t>({t.data<std::uint16_t>(), count}, bf16_exponent);
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& what, float value, const shape& dims, std::size_t place,
                         const std::string& wanted) {
  throw error(what + " holds " + value_text(value, dims, place) + "; wanted " + wanted);
}

std::string number(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  auto text = std::to_string(value);
  while (text.back() == '0')
    text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

} // namespace

std::optional<std::size_t> first_nonfinite(std::span<const float> values) {
  return first_of<std::uint32_t, float>(values, f32_exponent);
}

std::string value_text(float value, const shape& dims, std::size_t place) {
  shape index(dims.size());
  auto left = static_cast<std::int64_t>(place);
  for (std::size_t d = dims.size(); d-- > 0;) {
    index[d] = left % dims[d];
    left /= dims[d];
  }
  return number(value) + " at " + to_string(index);
}

bool is_finite(const tensor& t) {
  return !t || !first_stored(t);
}

nonfinite_value find_nonfinite(const tensor& plain) {
  if (!plain) return {};
  check(plain.is_plain(), "a message about a value needs its place");
  const auto place = first_stored(plain);
  if (!place) return {};
  return {static_cast<std::int64_t>(*place), plain.type() == dtype::bf16
                                                 ? float_from_bf16(plain.data<std::uint16_t>()[*place])
                                                 : plain.data<float>()[*place]};
}

void require_none_found(const tensor& found, const shape& dims, const std::string& what) {
  const double* f = found.data<double>();
  if (f[0] >= 0) refuse(what, static_cast<float>(f[1]), dims, static_cast<std::size_t>(f[0]), "finite numbers");
}

void require_finite(const tensor& t, const std::string& what) {
  const auto found = find_nonfinite(t);
  if (found.place >= 0)
    refuse(what, static_cast<float>(found.value), t.dims(), static_cast<std::size_t>(found.place), "finite numbers");
}

void require_state(const tensor& t, const state_spec& spec, const std::string& what) {
  require_finite(t, what);
  if (!t || t.type() != dtype::f32) return;
  const std::span<const float> values(t.data<float>(), static_cast<std::size_t>(t.elements()));
  const auto low = std::find_if(values.begin(), values.end(), [&](float v) { return v < spec.least; });
  if (low != values.end())
    refuse(what, *low, t.dims(), static_cast<std::size_t>(low - values.begin()), "at least " + number(spec.least));
}

} // namespace penstock
