// Unicode by utf8proc, and the two rules of lower case that need more than one code point.
#include "apps/metrics/characters.hpp"

#include "apps/text/unicode.hpp"

#include <algorithm>
#include <utf8proc.h>

namespace penstock::apps {

namespace {

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool is_cased(char32_t code) {
  const auto found = category(code);
  return found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LT;
}

// Unicode's Case_Ignorable: marks, formats, modifiers, and what may stand within a word.
bool is_passed_over(char32_t code) {
  constexpr std::u32string_view within_words = U"'.:·‘’․‧﹒＇．͵·՟״︓﹕：";
  switch (category(code)) {
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_SK:
    return true;
  default:
    return within_words.find(code) != std::u32string_view::npos;
  }
}

// Unicode's Final_Sigma: a cased letter before it and none behind it.
bool ends_word(std::u32string_view text, std::size_t at) {
  const auto before = text.substr(0, at);
  const auto behind = text.substr(at + 1);
  const auto left = std::find_if_not(before.rbegin(), before.rend(), is_passed_over);
  const auto right = std::find_if_not(behind.begin(), behind.end(), is_passed_over);
  return left != before.rend() && is_cased(*left) && (right == behind.end() || !is_cased(*right));
}

} // namespace

std::u32string code_points(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code = 0;
    const auto used = utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    points.push_back(used > 0 ? static_cast<char32_t>(code) : U'�');
    at += used > 0 ? static_cast<std::size_t>(used) : 1;
  }
  return points;
}

std::string utf8(std::u32string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (const auto code : text)
    unicode::append_character(bytes, code);
  return bytes;
}

std::u32string lower_case(std::u32string_view text) {
  constexpr char32_t dotted_i = U'İ';
  constexpr char32_t sigma = U'Σ';
  std::u32string low;
  low.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at)
    if (text[at] == dotted_i)
      low += U"i\u0307";
    else if (text[at] == sigma)
      low += ends_word(text, at) ? U'ς' : U'σ';
    else
      low += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(text[at])));
  return low;
}

} // namespace penstock::apps
