// Nearest words and lists for messages, and text of others made fit to be shown.
#include "kernels/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>

namespace penstock {

namespace {

std::string plain(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string text(word);
  for (auto& c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Optimal string alignment in half edits: Levenshtein's distance, but two neighbours swapped are half an edit, since
// that is how fingers err. Three rows.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::vector<std::size_t> next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    row[j] = 2 * j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = 2 * i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 2, next[j - 1] + 2, row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 2)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row.back();
}

struct character {
  std::size_t bytes = 1;
  std::optional<std::uint32_t> code; // none: the byte begins no UTF-8
};

character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t { return static_cast<unsigned char>(text[i]); };
  const auto first = byte(0);
  if (first < 0x80) return {1, first};
  const std::size_t bytes = first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  auto code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 2) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[bytes] || code > 0x10ffff || is_surrogate) return {};
  return {bytes, code};
}

// Controls of both sets, line and paragraph separators, and the marks that change the direction of what follows.
bool is_harmful(std::uint32_t code) {
  constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 8> ranges{{{0, 0x1f},
                                                                           {0x7f, 0x9f},
                                                                           {0x61c, 0x61c},
                                                                           {0x200e, 0x200f},
                                                                           {0x2028, 0x202e},
                                                                           {0x2066, 0x2069},
                                                                           {0xfeff, 0xfeff},
                                                                           {0xfff9, 0xfffb}}};
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& r) { return r.first <= code && code <= r.second; });
}

std::string escaped(std::uint32_t code) {
  constexpr std::string_view digits = "0123456789abcdef";
  if (code == '\n') return "\\n";
  if (code == '\t') return "\\t";
  if (code == '\r') return "\\r";
  std::string text = "\\u";
  for (int shift = 12; shift >= 0; shift -= 4)
    text += digits[code >> shift & 0xf];
  return text;
}

// The next piece of `text` as it may be shown, which is never split; `text` moves on.
std::string next_piece(std::string_view& text, std::string_view kept) {
  const auto next = first_character(text);
  const auto bytes = text.substr(0, next.bytes);
  text.remove_prefix(next.bytes);
  if (!next.code) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(bytes[0]);
    return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  const bool is_kept = *next.code < 0x80 && kept.find(bytes[0]) != std::string_view::npos;
  return is_harmful(*next.code) && !is_kept ? escaped(*next.code) : std::string(bytes);
}

std::string made_printable(std::string_view text, std::string_view kept) {
  std::string shown;
  while (!text.empty())
    shown += next_piece(text, kept);
  return shown;
}

} // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t least_prefix = 3;
  constexpr std::size_t longest = 200; // what is longer is no slip of the finger, and the distance is quadratic
  if (word.size() > longest) return "";
  const auto text = plain(word);
  if (text.empty()) return "";
  std::string best;
  std::string longer;
  std::size_t begins = 0;
  std::size_t least = 2 * std::max<std::size_t>(text.size() / 3, 1) + 1;
  for (const auto& candidate : candidates) {
    const auto other = plain(candidate);
    if (other.size() > text.size() && text.size() >= least_prefix && other.starts_with(text)) {
      longer = candidate;
      ++begins;
    }
    const auto d = edit_distance(text, other);
    if (d < least && d < 2 * std::max(text.size(), other.size())) { // something of the word must be left
      least = d;
      best = candidate;
    }
  }
  return best.empty() && begins == 1 ? longer : best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto best = nearest(word, candidates);
  return best.empty() ? "" : " (did you mean '" + best + "'?)";
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += separator;
    text += words[i];
  }
  return text;
}

std::string printable(std::string_view text) {
  return made_printable(text, "");
}

std::string printable_lines(std::string_view text) {
  return made_printable(text, "\n\t");
}

std::string shortened(std::string_view text, std::size_t most) {
  constexpr std::string_view gap = "...";
  // What is far too long is cut before it is looked at; a character that this cuts becomes bytes, and goes anyway.
  std::string cut;
  if (text.size() > 16 * most) {
    cut.append(text.substr(0, 8 * most)).append(text.substr(text.size() - 8 * most));
    text = cut;
  }
  std::vector<std::string> pieces;
  std::size_t bytes = 0;
  while (!text.empty()) {
    pieces.push_back(next_piece(text, ""));
    bytes += pieces.back().size();
  }
  std::string head;
  std::string tail;
  if (bytes <= most) return join(pieces, "");
  const auto room = most - gap.size();
  for (auto piece = pieces.begin(); head.size() + piece->size() <= room - room / 3; ++piece)
    head += *piece;
  for (auto piece = pieces.rbegin(); head.size() + tail.size() + piece->size() <= room; ++piece)
    tail.insert(0, *piece);
  return head.append(gap).append(tail);
}

std::string in_quotes(std::string_view text) {
  return "'" + shortened(text) + "'";
}

std::string one_line(std::string_view text) {
  constexpr std::size_t most = 500;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.remove_suffix(1);
  return shortened(text, most);
}

} // namespace penstock
