// Words between white space.
#pragma once

#include "apps/text/unicode.hpp"

#include <algorithm>
#include <string_view>

namespace penstock::apps {

/// Calls `word` for what Python's str.split() gives of valid UTF-8, in order.
template <class OnWord>
void split_white_space(std::string_view text, OnWord word) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto start = at;
    if (!unicode::is_white_space(unicode::next_character(text, at), unicode::whose_space::python)) continue;
    if (start > begin) word(text.substr(begin, start - begin));
    begin = at;
  }
  if (begin < text.size()) word(text.substr(begin));
}

/// The same at blanks alone, as subword-nmt cuts.
template <class OnWord>
void split_blanks(std::string_view text, OnWord word) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    if (end > at) word(text.substr(at, end - at));
    at = end + 1;
  }
}

} // namespace penstock::apps
