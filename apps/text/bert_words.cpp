// One pass that cleans and cuts at white space, then each word on its own. ASCII, most of the text, goes a short way.
#include "apps/text/bert_words.hpp"

#include "apps/text/unicode.hpp"

namespace penstock::apps {

using namespace unicode;

namespace {

bool is_ascii_punctuation(char32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
}

// The blocks of tokenization.py; kana and hangul are words like others.
bool is_cjk(char32_t c, bert_dialect dialect) {
  const auto lies = [&](char32_t least, char32_t most) { return c >= least && c <= most; };
  return lies(0x4e00, 0x9fff) || lies(0x3400, 0x4dbf) || lies(0x20000, 0x2a6df) || lies(0x2a700, 0x2b81f) ||
         lies(dialect == bert_dialect::transformers ? 0x2b820 : 0x2b920, 0x2ceaf) || lies(0xf900, 0xfaff) ||
         lies(0x2f800, 0x2fa1f);
}

std::string without_accents(std::string_view word) {
  const auto apart = normalized(word, unicode_form::nfd);
  std::string kept;
  for (std::size_t at = 0; at < apart.size();) {
    const auto c = next_character(apart, at);
    if (!is_nonspacing_mark(c)) append_character(kept, c);
  }
  return kept;
}

std::string in_lower_case(std::string_view word) {
  std::string lower;
  for (std::size_t at = 0; at < word.size();)
    append_lower_case(lower, next_character(word, at));
  return lower;
}

class splitter {
public:
  splitter(const bert_words& options, const std::function<void(std::string_view)>& emit)
      : options_(options), emit_(emit) {}

  void take(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const auto c = next_character(text, at);
      if (c < 0x80)
        take_ascii(static_cast<char>(c));
      else if (options_.lower_case && options_.dialect == bert_dialect::transformers)
        take_lowered(c);
      else
        take_other(c);
    }
    finish();
  }

private:
  void take_ascii(char c) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
      finish();
    else if (c > ' ' && c < 0x7f) // the rest are controls
      word_ += options_.lower_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }

  void take_lowered(char32_t c) {
    std::string lower;
    append_lower_case(lower, c);
    for (std::size_t at = 0; at < lower.size();) {
      const auto part = next_character(lower, at);
      if (part < 0x80)
        take_ascii(static_cast<char>(part));
      else
        take_other(part);
    }
  }

  void take_other(char32_t c) {
    if (c == 0xfffd || is_other(c)) return;
    if (options_.dialect == bert_dialect::transformers && is_unassigned(c)) return;
    if (is_white_space(c, whose_space::python)) return finish();
    const bool alone = options_.splits_cjk && is_cjk(c, options_.dialect);
    if (alone) finish();
    append_character(word_, c);
    is_ascii_ = false;
    if (alone) finish();
  }

  void finish() {
    if (word_.empty()) return;
    if (!is_ascii_) fold();
    if (options_.is_whole && options_.is_whole(word_))
      emit_(word_);
    else
      split_punctuation();
    word_.clear();
    is_ascii_ = true;
  }

  void fold() {
    if (options_.strip_accents)
      word_ = without_accents(word_);
    else if (options_.dialect == bert_dialect::transformers)
      word_ = normalized(word_, unicode_form::nfc);
    if (options_.lower_case && options_.dialect == bert_dialect::tokenizers) word_ = in_lower_case(word_);
  }

  void split_punctuation() {
    std::size_t begin = 0;
    const std::string_view word = word_;
    for (std::size_t at = 0; at < word.size();) {
      const auto start = at;
      const auto c = next_character(word, at);
      if (!(c < 0x80 ? is_ascii_punctuation(c) : is_punctuation(c))) continue;
      if (start > begin) emit_(word.substr(begin, start - begin));
      emit_(word.substr(start, at - start));
      begin = at;
    }
    if (begin < word.size()) emit_(word.substr(begin));
  }

  const bert_words& options_;
  const std::function<void(std::string_view)>& emit_;
  std::string word_;
  bool is_ascii_ = true;
};

} // namespace

void bert_words::of(std::string_view text, const std::function<void(std::string_view)>& word) const {
  splitter(*this, word).take(text);
}

} // namespace penstock::apps
