// One look-up a word.
#include "apps/text/words.hpp"

#include "apps/text/unicode.hpp"
#include "apps/text/vocabulary.hpp"
#include "apps/text/white_space.hpp"
#include "kernels/check.hpp"

namespace penstock::apps {

namespace {

class words final : public tokenizer {
public:
  explicit words(vocabulary tokens) : tokens_(std::move(tokens)) {
    special_.pad = tokens_.find("<pad>");
    special_.unknown = tokens_.find("<unk>");
    special_.end = tokens_.find("<eos>");
    if (!special_.unknown || !special_.end)
      throw error(std::string("has no ") + (special_.unknown ? "<eos>" : "<unk>") + ", wanted a word a line with both");
  }

  std::int64_t vocabulary_size() const override { return tokens_.size(); }
  const special_ids& special() const override { return special_; }
  std::string description() const override { return "words, " + std::to_string(tokens_.size()) + " of them"; }

private:
  token_ids encode_valid(std::string_view text) const override {
    token_ids ids;
    split_white_space(text,
                      [&](std::string_view word) { ids.push_back(tokens_.find(word).value_or(*special_.unknown)); });
    return ids;
  }

  std::string decode_valid(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const auto id : ids)
      if (id != special_.pad && id != special_.end) (text += text.empty() ? "" : " ") += tokens_[id];
    return text;
  }

  std::string token_valid(std::int64_t id) const override { return tokens_[id]; }

  vocabulary tokens_;
  special_ids special_;
};

} // namespace

std::unique_ptr<tokenizer> open_words(const std::filesystem::path& vocab_file) {
  auto lines = read_token_lines(vocab_file);
  try {
    return make_words(std::move(lines));
  } catch (const error& fault) {
    throw error(vocab_file.string() + ": " + fault.what());
  }
}

std::unique_ptr<tokenizer> make_words(std::vector<std::string> tokens) {
  return std::make_unique<words>(vocabulary(std::move(tokens)));
}

std::vector<std::string> most_frequent(const word_counts& words, std::int64_t most) {
  std::vector<std::string> tokens{"<unk>", "<eos>"};
  for (const auto& [word, count] : words.by_count()) {
    if (static_cast<std::int64_t>(tokens.size()) >= most) break;
    if (word != "<unk>" && word != "<eos>") tokens.push_back(word);
  }
  return tokens;
}

} // namespace penstock::apps
