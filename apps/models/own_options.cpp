// Reads words as numbers.
#include "apps/models/own_options.hpp"

#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <array>
#include <charconv>

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

} // namespace penstock::apps
