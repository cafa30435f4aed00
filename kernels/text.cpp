// Nearest words and lists for messages.
#include "kernels/text.hpp"

#include <algorithm>
#include <cctype>

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

} // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t least_prefix = 3;
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

} // namespace penstock
