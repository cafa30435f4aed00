// Segments words by merges, then looks the pieces up.
#include "apps/text/subword_merges.hpp"

#include "apps/text/merge_table.hpp"
#include "apps/text/unicode.hpp"
#include "apps/text/vocabulary.hpp"
#include "apps/text/white_space.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>

namespace penstock::apps {

using namespace unicode;

namespace {

constexpr std::string_view joint = "@@";
constexpr std::string_view word_end = "</w>";
constexpr std::size_t vocabulary_multiple = 8;

enum class version : std::uint8_t { end_apart, end_joined }; // 0.1, 0.2

version version_of(std::string_view line) {
  const auto number = line.substr(std::min(line.size(), line.find_last_of(" \t:") + 1));
  if (number == "0.1") return version::end_apart;
  if (number == "0.2") return version::end_joined;
  throw error("line 1: found version " + in_quotes(number) + ", wanted 0.1 or 0.2");
}

std::pair<std::string, std::string> merge_of(std::string_view line, std::size_t number) {
  while (line.ends_with(' '))
    line.remove_suffix(1);
  while (line.starts_with(' '))
    line.remove_prefix(1);
  const auto blank = line.find(' ');
  if (blank == std::string_view::npos || line.find(' ', blank + 1) != std::string_view::npos)
    throw error("line " + std::to_string(number) + ": found " + in_quotes(line) +
                ", wanted two symbols with a blank between");
  return {std::string(line.substr(0, blank)), std::string(line.substr(blank + 1))};
}

} // namespace

struct subword_segmenter::implementation {
  version form = version::end_apart;
  merge_table table{{}};

  void segment_word(std::string_view word, const std::function<void(std::string_view)>& token) const {
    std::vector<std::int32_t> symbols;
    std::vector<merge_table::piece> pieces;
    std::string last;
    for (std::size_t at = 0; at < word.size();) {
      const auto begin = at;
      next_character(word, at);
      const auto character = word.substr(begin, at - begin);
      const bool ends = at == word.size() && form == version::end_joined;
      if (ends) last.assign(character).append(word_end);
      symbols.push_back(table.find(ends ? std::string_view(last) : character));
      pieces.push_back({begin, at - begin});
    }
    if (pieces.size() == 1) return token(word);
    if (form == version::end_apart) {
      symbols.push_back(table.find(word_end));
      pieces.push_back({word.size(), 0});
    }
    table.merge(symbols, pieces, merge_order::rounds);
    if (pieces.back().size == 0) pieces.pop_back();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      auto& text = last.assign(word.substr(pieces[i].begin, pieces[i].size));
      if (i + 1 < pieces.size()) text += joint;
      token(text);
    }
  }
};

subword_segmenter::subword_segmenter(const std::vector<std::string>& lines)
    : self_(std::make_unique<implementation>()) {
  std::size_t first = 0;
  if (!lines.empty() && lines.front().starts_with("#version:")) {
    self_->form = version_of(lines.front());
    first = 1;
  }
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::size_t i = first; i < lines.size(); ++i)
    merges.push_back(merge_of(lines[i], i + 1));
  self_->table = merge_table(merges);
}

subword_segmenter::~subword_segmenter() = default;
subword_segmenter::subword_segmenter(subword_segmenter&&) noexcept = default;

std::size_t subword_segmenter::merges() const {
  return self_->table.size();
}

void subword_segmenter::segment(std::string_view line, const std::function<void(std::string_view)>& token) const {
  const auto is_end = [](char c) { return c == '\r' || c == '\n' || c == ' '; };
  while (!line.empty() && is_end(line.front()))
    line.remove_prefix(1);
  while (!line.empty() && is_end(line.back()))
    line.remove_suffix(1);
  split_blanks(line, [&](std::string_view word) { self_->segment_word(word, token); });
}

namespace {

const std::vector<std::string>& gnmt_specials() {
  static const std::vector<std::string> tokens{"<pad>", "<unk>", "<s>", "<\\s>"};
  return tokens;
}

// A token, or a token and its count.
std::string token_of(const std::string& line, std::size_t number) {
  const auto blank = line.find(' ');
  if (blank == std::string::npos) return line;
  const auto count = std::string_view(line).substr(blank + 1);
  const bool is_count = !count.empty() && count.find_first_not_of("0123456789") == std::string_view::npos;
  if (blank == 0 || !is_count)
    throw error("line " + std::to_string(number) + ": found " + in_quotes(line) +
                ", wanted a token, or a token and its count");
  return line.substr(0, blank);
}

vocabulary gnmt_vocabulary(const std::filesystem::path& file) {
  const auto lines = read_token_lines(file);
  try {
    std::vector<std::string> tokens;
    for (std::size_t i = 0; i < lines.size(); ++i)
      tokens.push_back(token_of(lines[i], i + 1));
    // Twice the same token is told by the file's lines; a special one among them is another matter.
    for (std::size_t i = 0; i < tokens.size(); ++i)
      for (const auto& special : gnmt_specials())
        if (tokens[i] == special)
          throw error("line " + std::to_string(i + 1) + ": found " + special +
                      ", which is put before the file's tokens");
    const vocabulary once(tokens);
    auto all = gnmt_specials();
    all.insert(all.end(), tokens.begin(), tokens.end());
    const auto filling = vocabulary_multiple - all.size() % vocabulary_multiple;
    for (std::size_t i = 0; i < filling; ++i)
      all.push_back("madeupword000" + std::to_string(i));
    return vocabulary(std::move(all));
  } catch (const error& fault) {
    throw error(file.string() + ": " + fault.what());
  }
}

class subword_merges final : public tokenizer {
public:
  subword_merges(subword_segmenter segmenter, vocabulary tokens)
      : segmenter_(std::move(segmenter)), tokens_(std::move(tokens)) {}

  std::int64_t vocabulary_size() const override { return tokens_.size(); }
  const special_ids& special() const override { return special_; }
  std::string description() const override {
    return "subword merges, " + std::to_string(segmenter_.merges()) + " merges, " + std::to_string(tokens_.size()) +
           " tokens";
  }

private:
  token_ids encode_valid(std::string_view text) const override {
    token_ids ids;
    // GNMT reads the segmented line by str.split(), so a piece with other white space in it falls apart once more.
    segmenter_.segment(text, [&](std::string_view piece) {
      split_white_space(
          piece, [&](std::string_view token) { ids.push_back(tokens_.find(token).value_or(*special_.unknown)); });
    });
    return ids;
  }

  std::string decode_valid(std::span<const std::int64_t> ids) const override {
    std::string text;
    bool joins = true;
    for (const auto id : ids) {
      if (id == special_.pad || id == special_.begin || id == special_.end) continue;
      std::string_view token = tokens_[id];
      if (!joins) text += ' ';
      joins = token.ends_with(joint);
      if (joins) token.remove_suffix(joint.size());
      text += token;
    }
    return text;
  }

  std::string token_valid(std::int64_t id) const override { return tokens_[id]; }

  subword_segmenter segmenter_;
  vocabulary tokens_;
  special_ids special_{.pad = 0, .unknown = 1, .begin = 2, .end = 3};
};

} // namespace

std::unique_ptr<tokenizer> open_subword_merges(const std::filesystem::path& merges_file,
                                               const std::filesystem::path& vocab_file) {
  const auto lines = read_token_lines(merges_file);
  auto tokens = gnmt_vocabulary(vocab_file);
  try {
    return std::make_unique<subword_merges>(subword_segmenter(lines), std::move(tokens));
  } catch (const error& fault) {
    throw error(merges_file.string() + ": " + fault.what());
  }
}

} // namespace penstock::apps
