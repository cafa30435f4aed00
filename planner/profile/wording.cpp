// Words for errors: quoting, nearest names, numbers.
#include "planner/profile/wording.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace penstock::planner {

namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const auto replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// Bytes of the UTF-8 character that begins `text` (not empty); 0 if none does.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t { return static_cast<unsigned char>(text[i]); };
  const auto first = byte(0);
  const std::size_t size = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (size <= 1 || size > text.size()) return size == 1 ? 1 : 0;
  auto code = first & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (byte(i) >> 6 != 2) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least[size] || code > 0x10ffff || is_surrogate ? 0 : size;
}

} // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 60;
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  std::size_t at = 0;
  while (at < text.size() && at < longest) {
    const auto size = character_size(text.substr(at));
    if (size == 0 || is_control(text[at])) {
      const auto byte = static_cast<unsigned char>(text[at++]);
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    } else {
      out += text.substr(at, size);
      at += size;
    }
  }
  return at < text.size() ? out + "..." : out;
}

std::string quoted(std::string_view text) {
  return "'" + shown(text) + "'";
}

std::string number_text(double value) {
  constexpr double exact_integers = 9007199254740992; // 2^53
  if (std::abs(value) < exact_integers && value == std::trunc(value))
    return std::to_string(static_cast<std::int64_t>(value));
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t longest = 200; // what is longer is no slip of the finger, and the distance is quadratic
  if (word.size() > longest) return "";
  const std::string* best = nullptr;
  auto least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : known) {
    const auto gap = std::max(candidate.size(), word.size()) - std::min(candidate.size(), word.size());
    if (gap >= least) continue;
    if (const auto d = edit_distance(word, candidate); d < least) {
      best = &candidate;
      least = d;
    }
  }
  return best != nullptr ? " (did you mean " + quoted(*best) + "?)" : "";
}

std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const unsigned char c : text)
    hash = (hash ^ c) * 1099511628211U;
  constexpr const char* digits = "0123456789abcdef";
  std::string result(16, '0');
  for (std::size_t i = result.size(); i-- > 0; hash >>= 4)
    result[i] = digits[hash & 15];
  return result;
}

std::string options_as_said_now(std::string model_options) {
  constexpr std::string_view unsaid = " vocabulary=0";
  const auto at = model_options.find(unsaid);
  if (at == std::string::npos) return model_options;
  const auto end = at + unsaid.size();
  if (end == model_options.size() || model_options[end] == ' ') model_options.erase(at, unsaid.size());
  return model_options;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto size = character_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

bool is_plain_text(std::string_view text) {
  return std::none_of(text.begin(), text.end(), is_control) && is_utf8(text);
}

} // namespace penstock::planner
