// Greedy longest match, first of a word, then of what is left with the prefix before it.
#include "apps/text/wordpiece.hpp"

#include "apps/text/unicode.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <algorithm>

namespace penstock::apps {

using namespace unicode;

namespace {

class piece_table {
public:
  void add(std::string_view piece, std::int64_t id) {
    ids_.emplace(piece, id);
    longest_ = std::max(longest_, piece.size());
  }

  /// The longest piece that `text` begins with: its bytes (0: none) and id.
  std::pair<std::size_t, std::int64_t> longest_of(std::string_view text) const {
    for (auto size = std::min(longest_, text.size()); size > 0; --size) {
      const bool cuts_a_character = size < text.size() && (static_cast<std::uint8_t>(text[size]) & 0xc0) == 0x80;
      if (cuts_a_character) continue;
      const auto found = ids_.find(text.substr(0, size));
      if (found != ids_.end()) return {size, found->second};
    }
    return {0, 0};
  }

private:
  std::unordered_map<std::string_view, std::int64_t> ids_; // into the vocabulary's strings
  std::size_t longest_ = 0;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t begin = 0;
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, begin)) {
    result.append(text, begin, at - begin).append(to);
    begin = at + from.size();
  }
  text = result.append(text, begin);
}

// transformers' clean_up_tokenization, in its order.
void clean_up_spaces(std::string& text) {
  for (const auto* mark : {" .", " ?", " !", " ,"})
    replace_all(text, mark, mark + 1);
  replace_all(text, " ' ", "'");
  for (const auto* ending : {" n't", " 'm", " 's", " 've", " 're"})
    replace_all(text, ending, ending + 1);
}

class wordpiece final : public tokenizer {
public:
  wordpiece(vocabulary tokens, wordpiece_options options, added_tokens added, special_ids special)
      : tokens_(std::move(tokens)), options_(std::move(options)), added_(std::move(added)), special_(special) {
    const auto unknown = tokens_.find(options_.unknown);
    if (!unknown) throw error("has no " + in_quotes(options_.unknown) + ", which words without pieces become");
    unknown_ = *unknown;
    for (std::int64_t id = 0; id < tokens_.size(); ++id) {
      const std::string_view token = tokens_[id];
      starts_.add(token, id);
      if (token.starts_with(options_.prefix)) continues_.add(token.substr(options_.prefix.size()), id);
    }
    if (options_.words.dialect == bert_dialect::transformers)
      options_.words.is_whole = [this](std::string_view word) {
        const auto id = word.starts_with('[') ? tokens_.find(word) : std::nullopt;
        return id && added_.holds(*id);
      };
  }

  std::int64_t vocabulary_size() const override { return tokens_.size(); }
  const special_ids& special() const override { return special_; }
  std::string description() const override {
    return std::string("WordPiece, ") + (options_.words.lower_case ? "lower case, " : "cased, ") +
           std::to_string(tokens_.size()) + " tokens";
  }

private:
  token_ids encode_valid(std::string_view text) const override {
    token_ids ids;
    const std::function<void(std::string_view)> add = [&](std::string_view word) { add_pieces(word, ids); };
    added_.split(
        text, [&](std::string_view part) { options_.words.of(part, add); },
        [&](std::int64_t id) { ids.push_back(id); });
    return ids;
  }

  void add_pieces(std::string_view word, token_ids& ids) const {
    const auto before = ids.size();
    const bool is_long = word.size() > options_.longest_word && count_characters(word) > options_.longest_word;
    for (std::size_t at = 0; !is_long && at < word.size();) {
      const auto [size, id] = (at == 0 ? starts_ : continues_).longest_of(word.substr(at));
      if (size == 0) {
        ids.resize(before);
        break;
      }
      ids.push_back(id);
      at += size;
    }
    if (ids.size() == before) ids.push_back(unknown_);
  }

  std::string decode_valid(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const auto id : ids) {
      if (special_.holds(id) || added_.holds(id)) continue;
      const std::string_view token = tokens_[id];
      if (token.starts_with(options_.prefix) && !text.empty())
        text += token.substr(options_.prefix.size());
      else
        (text += text.empty() ? "" : " ") += token;
    }
    if (options_.cleans_up_spaces) clean_up_spaces(text);
    return text;
  }

  std::string token_valid(std::int64_t id) const override { return tokens_[id]; }

  vocabulary tokens_;
  wordpiece_options options_;
  added_tokens added_;
  special_ids special_;
  std::int64_t unknown_ = 0;
  piece_table starts_;
  piece_table continues_;
};

bool has_capitals(const std::string& token) {
  std::string lower;
  for (std::size_t at = 0; at < token.size();)
    append_lower_case(lower, next_character(token, at));
  return lower != token;
}

} // namespace

std::unique_ptr<tokenizer> make_wordpiece(vocabulary tokens, wordpiece_options options,
                                          std::vector<std::pair<std::string, std::int64_t>> added,
                                          special_ids special) {
  return std::make_unique<wordpiece>(std::move(tokens), std::move(options), added_tokens(std::move(added)), special);
}

std::unique_ptr<tokenizer> open_wordpiece(const std::filesystem::path& vocab_file, letter_case letters) {
  auto lines = read_token_lines(vocab_file);
  try {
    vocabulary tokens(std::move(lines));
    std::vector<std::pair<std::string, std::int64_t>> added;
    std::vector<std::string> missing;
    for (const auto& token : bert_special_tokens()) {
      if (const auto id = tokens.find(token))
        added.emplace_back(token, *id);
      else
        missing.push_back(token);
    }
    if (!missing.empty()) throw error("has no " + join(missing, ", ") + ", wanted BERT's vocab.txt");
    wordpiece_options options;
    options.words.lower_case =
        letters == letter_case::lower ||
        (letters == letter_case::as_found &&
         std::none_of(tokens.tokens().begin(), tokens.tokens().end(), [](const std::string& token) {
           return !(token.starts_with('[') && token.ends_with(']')) && has_capitals(token);
         }));
    options.words.strip_accents = options.words.lower_case;
    const special_ids special{.pad = tokens.find("[PAD]"),
                              .unknown = tokens.find("[UNK]"),
                              .begin = tokens.find("[CLS]"),
                              .end = tokens.find("[SEP]"),
                              .mask = tokens.find("[MASK]")};
    return make_wordpiece(std::move(tokens), options, std::move(added), special);
  } catch (const error& fault) {
    throw error(vocab_file.string() + ": " + fault.what());
  }
}

} // namespace penstock::apps
