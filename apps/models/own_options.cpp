// Reads words as numbers.
#include "apps/models/own_options.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace penstock::apps {

namespace {

template <class T>
bool parse_whole_text(const std::string& text, T& value) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && end == text.data() + text.size();
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

} // namespace

std::string own_text(const model_options& options, const std::string& name) {
  const auto given = options.own.find(name);
  return given == options.own.end() ? "" : given->second;
}

std::int64_t own_whole(const model_options& options, const std::string& name, std::int64_t otherwise,
                       std::int64_t least, std::int64_t most) {
  const auto text = own_text(options, name);
  if (text.empty()) return otherwise;
  std::int64_t value = 0;
  if (!parse_whole_text(text, value) || value < least || value > most)
    throw usage_error("--" + name + ": found " + in_quotes(text) + ", wanted a whole number from " +
                      std::to_string(least) + " to " + std::to_string(most));
  return value;
}

double own_real(const model_options& options, const std::string& name, double otherwise, double most, upper_end end) {
  const auto text = own_text(options, name);
  if (text.empty()) return otherwise;
  const bool is_open = end == upper_end::excluded;
  double value = 0;
  const bool fits = parse_whole_text(text, value) && value >= 0 && (is_open ? value < most : value <= most);
  if (!fits) // NaN included
    throw usage_error("--" + name + ": found " + in_quotes(text) + ", wanted a number from 0 to " +
                      (is_open ? "less than " : "") + number_text(most));
  return value;
}

std::int64_t scaled(std::int64_t size, double width) {
  if (width == 1) return size;
  return std::max<std::int64_t>(8, 8 * std::llround(static_cast<double>(size) * width / 8));
}

void check_width_and_dropout(const std::string& model, const model_options& options) {
  if (!(options.width > 0 && options.width <= widest))
    throw usage_error(model + ": width " + std::to_string(options.width) + " is not above 0 and at most 16");
  if (!(options.dropout < 1))
    throw usage_error(model + ": --dropout " + std::to_string(options.dropout) + " is not below 1");
}

} // namespace penstock::apps
