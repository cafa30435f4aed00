// The tokenizers of BLEU: passes over a line's code points, each reading left to right what the one before wrote.
#include "apps/metrics/bleu.hpp"
#include "apps/metrics/characters.hpp"
#include "apps/text/unicode.hpp"

#include <utility>

namespace penstock::apps {

namespace {

constexpr char32_t blank = U' ';

// Each pass puts blanks around what it finds. A pair that was found is left behind as a whole: what it ends with begins
// no other pair.
enum class blanks : std::uint8_t { around_second, around_first };

template <typename First, typename Second>
std::u32string split_pairs(std::u32string_view text, First first, Second second, blanks where) {
  std::u32string out;
  out.reserve(text.size() * 2);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (at + 1 == text.size() || !first(text[at]) || !second(text[at + 1])) {
      out += text[at];
      continue;
    }
    if (where == blanks::around_first) out += blank;
    out += text[at++];
    out += blank;
    out += text[at];
    if (where == blanks::around_second) out += blank;
  }
  return out;
}

template <typename Class>
std::u32string split_single(std::u32string_view text, Class is_one) {
  std::u32string out;
  out.reserve(text.size() * 2);
  for (const auto code : text) {
    if (is_one(code)) out += blank;
    out += code;
    if (is_one(code)) out += blank;
  }
  return out;
}

bool is_blank(char32_t code) { // what Python's str.split() takes for one
  return unicode::is_white_space(code, unicode::whose_space::python);
}

bool is_no_number(char32_t code) {
  return !unicode::is_number(code);
}

std::u32string international(std::u32string_view text) {
  const auto left = split_pairs(text, is_no_number, unicode::is_punctuation, blanks::around_second);
  const auto right = split_pairs(left, unicode::is_punctuation, is_no_number, blanks::around_first);
  return split_single(right, unicode::is_symbol);
}

void replace_all(std::u32string& text, std::u32string_view old, std::u32string_view with) {
  for (auto at = text.find(old); at != std::u32string::npos; at = text.find(old, at + with.size()))
    text.replace(at, old.size(), with);
}

bool is_ascii_mark(char32_t code) { // all but ' , - .
  return (code >= U'{' && code <= U'~') || (code >= U'[' && code <= U'`') || (code >= U' ' && code <= U'&') ||
         (code >= U'(' && code <= U'+') || (code >= U':' && code <= U'@') || code == U'/';
}
bool is_digit(char32_t code) {
  return code >= U'0' && code <= U'9';
}
bool is_no_digit(char32_t code) {
  return !is_digit(code);
}
bool is_stop(char32_t code) {
  return code == U'.' || code == U',';
}
bool is_dash(char32_t code) {
  return code == U'-';
}

std::u32string western(std::u32string_view line) {
  std::u32string text(line);
  replace_all(text, U"<skipped>", U"");
  for (const auto& [entity, character] :
       {std::pair{U"&quot;", U"\""}, {U"&amp;", U"&"}, {U"&lt;", U"<"}, {U"&gt;", U">"}})
    replace_all(text, entity, character);
  text = split_single(U" " + text + U" ", is_ascii_mark);
  text = split_pairs(text, is_no_digit, is_stop, blanks::around_second);
  text = split_pairs(text, is_stop, is_no_digit, blanks::around_first);
  return split_pairs(text, is_digit, is_dash, blanks::around_second);
}

} // namespace

std::string_view name_of(bleu_tokenizer tokenizer) {
  switch (tokenizer) {
  case bleu_tokenizer::intl:
    return "intl";
  case bleu_tokenizer::thirteen_a:
    return "13a";
  case bleu_tokenizer::none:
    return "none";
  }
  return "?";
}

std::vector<std::string> bleu_tokens(std::string_view line, bleu_tokenizer tokenizer, bool is_lower_case) {
  auto text = code_points(line);
  if (is_lower_case) text = lower_case(text);
  while (!text.empty() && is_blank(text.back()))
    text.pop_back(); // before the passes, which look at what is beside a mark
  if (tokenizer == bleu_tokenizer::intl) text = international(text);
  if (tokenizer == bleu_tokenizer::thirteen_a) text = western(text);
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && !is_blank(text[end]))
      ++end;
    if (end > at) tokens.push_back(utf8(std::u32string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return tokens;
}

} // namespace penstock::apps
