// Reads captions and numbers their words.
#include "apps/data/caption_words.hpp"

#include "apps/text/lines.hpp"
#include "apps/text/white_space.hpp"
#include "apps/text/word_counts.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <charconv>

namespace penstock::apps {

namespace {

std::int64_t number_of(const line_reader& lines, std::string_view column, const char* what) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(column.data(), column.data() + column.size(), value);
  if (fault != std::errc() || end != column.data() + column.size() || value < 0)
    lines.fail("found " + in_quotes(std::string(column)) + ", wanted " + what + " as a whole number");
  return value;
}

std::string lower_case(std::string_view text) {
  std::string lower;
  for (std::size_t at = 0; at < text.size();)
    unicode::append_lower_case(lower, unicode::next_character(text, at));
  return lower;
}

} // namespace

std::vector<clip_caption> read_captions(const std::string& file) {
  line_reader lines(file);
  std::vector<clip_caption> all;
  while (const auto line = lines.next()) {
    const auto first = line->find('\t');
    const auto second = first == std::string_view::npos ? first : line->find('\t', first + 1);
    if (second == std::string_view::npos || line->find('\t', second + 1) != std::string_view::npos)
      lines.fail("found " + std::to_string(1 + std::count(line->begin(), line->end(), '\t')) +
                 " columns, wanted a clip's number, its frames and a caption with tabs between");
    clip_caption one{.clip = number_of(lines, line->substr(0, first), "a clip's number"),
                     .frames = number_of(lines, line->substr(first + 1, second - first - 1), "a clip's frames"),
                     .text = std::string(line->substr(second + 1))};
    bool has_words = false;
    split_white_space(one.text, [&](std::string_view) { has_words = true; });
    if (!has_words) lines.fail("found an empty caption, wanted words");
    all.push_back(std::move(one));
  }
  if (all.empty()) throw error(file + ": found no lines, wanted captions");
  return all;
}

caption_words::caption_words(const std::vector<clip_caption>& known) {
  word_counts counts;
  for (const auto& caption : known)
    split_white_space(lower_case(caption.text), [&](std::string_view word) {
      if (word != "<eos>" && word != "<unk>") counts.add(word);
    });
  std::vector<std::string> words{"<eos>", "<unk>"};
  for (const auto& [word, count] : counts.by_count())
    words.push_back(word);
  words_ = vocabulary(std::move(words));
}

std::vector<std::int64_t> caption_words::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  split_white_space(lower_case(text), [&](std::string_view word) {
    const auto found = words_.find(word).value_or(unknown);
    ids.push_back(found == end ? unknown : found); // a text that spells the end out
  });
  return ids;
}

std::string caption_words::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const auto id : ids) {
    if (id == end) break;
    text += (text.empty() ? "" : " ") + words_[id < words_.size() ? id : unknown];
  }
  return text;
}

} // namespace penstock::apps
