// A number, a prefix and a unit; the unit's case tells bits from bytes.
#include "apps/runner/quantity.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace penstock::apps {

namespace {

struct amount {
  double number = 0;
  std::string_view unit; ///< "" for a plain number
};

std::optional<amount> split(std::string_view text) {
  amount a;
  const auto [rest, fault] = std::from_chars(text.data(), text.data() + text.size(), a.number);
  if (fault != std::errc{} || !std::isfinite(a.number)) return std::nullopt;
  a.unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  if (a.unit.starts_with(' ')) a.unit.remove_prefix(1);
  if (a.unit.empty() && rest != text.data() + text.size()) return std::nullopt; // a space and nothing
  return a;
}

// "K", "M", ... and with an i the powers of 1,024; takes it off the unit.
double take_prefix(std::string_view& unit) {
  constexpr std::string_view prefixes = "kmgt";
  if (unit.empty()) return 1;
  const auto at = prefixes.find(static_cast<char>(unit.front() | 0x20));
  if (at == std::string_view::npos) return 1;
  unit.remove_prefix(1);
  const bool binary = unit.starts_with('i');
  if (binary) unit.remove_prefix(1);
  return std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(at + 1));
}

bool take(std::string_view& unit, std::string_view word) {
  if (!unit.ends_with(word)) return false;
  unit.remove_suffix(word.size());
  return true;
}

[[noreturn]] void refuse(const std::string& option, const std::string& text, const std::string& wanted) {
  throw usage_error(option + ": found " + in_quotes(text) + ", wanted " + wanted);
}

double within(double value, double least, double most, const std::string& option, const std::string& text,
              const std::string& wanted) {
  if (!(value >= least && value <= most)) refuse(option, text, wanted);
  return value;
}

} // namespace

double parse_bytes(const std::string& option, const std::string& text) {
  const std::string wanted = "bytes from 0 to 1e15: a number, or one with kB, MB, GB, TB (thousands) or KiB, MiB, GiB, "
                             "TiB (1,024s)";
  auto a = split(text);
  if (!a) refuse(option, text, wanted);
  if (a->unit.empty()) return within(a->number, 0, 1e15, option, text, wanted);
  const auto factor = take_prefix(a->unit);
  if (a->unit == "b") refuse(option, text, "bytes, whose sign is a capital B (a small b is bits)");
  if (a->unit != "B") refuse(option, text, wanted);
  return within(a->number * factor, 0, 1e15, option, text, wanted);
}

double parse_bandwidth(const std::string& option, const std::string& text) {
  const std::string wanted = "bytes a second from 1 to 1e15: a number, or one with a unit of bytes (1.25GB/s) or of "
                             "bits (10Gb/s)";
  auto a = split(text);
  if (!a) refuse(option, text, wanted);
  if (a->unit.empty()) return within(a->number, 1, 1e15, option, text, wanted);
  if (!take(a->unit, "/s")) take(a->unit, "ps");
  const auto factor = take_prefix(a->unit);
  if (a->unit == "b" || a->unit == "bit") return within(a->number * factor / 8, 1, 1e15, option, text, wanted);
  if (a->unit != "B") refuse(option, text, wanted);
  return within(a->number * factor, 1, 1e15, option, text, wanted);
}

double parse_seconds(const std::string& option, const std::string& text) {
  const std::string wanted = "seconds from 0 to 1000: a number, or one with s, ms, us or ns";
  const auto a = split(text);
  if (!a) refuse(option, text, wanted);
  struct scale {
    std::string_view unit;
    double per_second;
  };
  constexpr std::array<scale, 5> scales{{{"", 1}, {"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}}};
  for (const auto& s : scales)
    if (a->unit == s.unit) return within(a->number / s.per_second, 0, 1000, option, text, wanted);
  refuse(option, text, wanted);
}

} // namespace penstock::apps
