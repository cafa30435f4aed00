// Text is normalised, cut into words, spelt in symbols, merged, looked up.
#include "apps/text/byte_pairs.hpp"

#include "apps/text/merge_table.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <array>
#include <set>

namespace penstock::apps {

using namespace unicode;

namespace {

// GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 and up, in order.
struct byte_alphabet {
  std::array<std::string, 256> characters;
  std::unordered_map<char32_t, char> bytes;

  byte_alphabet() {
    char32_t next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      const bool is_itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      const char32_t c = is_itself ? b : next++;
      append_character(characters[b], c);
      bytes.emplace(c, static_cast<char>(b));
    }
  }
};

const byte_alphabet& alphabet() {
  static const byte_alphabet all;
  return all;
}

enum class kind : std::uint8_t { letter, number, space, other };

kind kind_of(char32_t c) {
  if (is_letter(c)) return kind::letter;
  if (is_number(c)) return kind::number;
  return is_white_space(c, whose_space::rust) ? kind::space : kind::other;
}

struct place {
  std::size_t begin;
  kind what;
};

// Bytes of the contraction ('s 't 're 've 'm 'll 'd) that begins here, or 0.
std::size_t contraction(std::string_view text) {
  for (const std::string_view c : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(c)) return c.size();
  return 0;
}

// GPT-2's pattern: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
template <class OnWord>
void split_words(std::string_view text, OnWord word) {
  std::vector<place> all;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    all.push_back({begin, kind_of(next_character(text, at))});
  }
  const auto count = all.size();
  all.push_back({text.size(), kind::space});
  for (std::size_t i = 0; i < count;) {
    const auto begin = i;
    if (const auto bytes = contraction(text.substr(all[i].begin)); bytes > 0) {
      i += bytes; // ASCII
    } else {
      const bool has_blank = text[all[i].begin] == ' ' && i + 1 < count && all[i + 1].what != kind::space;
      if (has_blank) ++i;
      const auto what = all[i].what;
      while (i < count && all[i].what == what)
        ++i;
      // White space before a word leaves it the last one.
      if (what == kind::space && i < count && i - begin > 1) --i;
    }
    word(text.substr(all[begin].begin, all[i].begin - all[begin].begin));
  }
}

class byte_pairs final : public tokenizer {
public:
  byte_pairs(vocabulary tokens, const std::vector<std::pair<std::string, std::string>>& merges,
             byte_pair_options options, added_tokens added, special_ids special)
      : tokens_(std::move(tokens)), table_(merges), options_(std::move(options)), added_(std::move(added)),
        special_(special) {
    std::set<std::pair<std::string, std::string>> seen;
    for (const auto& merge : merges) {
      const auto shown = in_quotes(merge.first + " " + merge.second);
      if (!seen.insert(merge).second) throw error("found the merge " + shown + " twice, wanted it once");
      if (!tokens_.find(merge.first + merge.second))
        throw error("found the merge " + shown + ", whose result is no token");
    }
    if (options_.unknown && !tokens_.find(*options_.unknown))
      throw error("has no token " + in_quotes(*options_.unknown) + ", which is to stand for what is unknown");
  }

  std::int64_t vocabulary_size() const override { return tokens_.size(); }
  const special_ids& special() const override { return special_; }
  std::string description() const override {
    return std::string("byte pair encoding") + (options_.on_bytes ? " of bytes, " : ", ") +
           std::to_string(table_.size()) + " merges, " + std::to_string(tokens_.size()) + " tokens";
  }

private:
  token_ids encode_valid(std::string_view text) const override {
    token_ids ids;
    added_.split(
        text, [&](std::string_view part) { encode_part(normalise(part), ids); },
        [&](std::int64_t id) { ids.push_back(id); });
    return ids;
  }

  std::string normalise(std::string_view part) const {
    std::string text(part);
    for (const auto step : options_.normalizer) {
      if (step == text_step::lower_case) {
        std::string lower;
        for (std::size_t at = 0; at < text.size();)
          append_lower_case(lower, next_character(text, at));
        text = std::move(lower);
      } else {
        constexpr std::array forms{unicode_form::nfc, unicode_form::nfd, unicode_form::nfkc, unicode_form::nfkd};
        text = normalized(text, forms[static_cast<std::size_t>(step)]);
      }
    }
    return text;
  }

  void encode_part(std::string text, token_ids& ids) const {
    if (text.empty()) return;
    if (!options_.on_bytes) {
      std::size_t begin = 0;
      for (std::size_t at = 0; at < text.size();) {
        const auto start = at;
        if (!is_white_space(next_character(text, at), whose_space::rust)) continue;
        if (start > begin) encode_word(std::string_view(text).substr(begin, start - begin), ids);
        begin = at;
      }
      if (begin < text.size()) encode_word(std::string_view(text).substr(begin), ids);
      return;
    }
    if (options_.adds_prefix_space && !text.starts_with(' ')) text.insert(text.begin(), ' ');
    const auto spell = [&](std::string_view word) {
      std::string spelt;
      for (const char c : word)
        spelt += alphabet().characters[static_cast<std::uint8_t>(c)];
      encode_word(spelt, ids);
    };
    if (options_.splits_words)
      split_words(text, spell);
    else
      spell(text);
  }

  void encode_word(std::string_view word, token_ids& ids) const {
    if (options_.whole_words_first)
      if (const auto whole = tokens_.find(word)) return ids.push_back(*whole);
    std::vector<std::int32_t> symbols;
    std::vector<merge_table::piece> pieces;
    std::string text;
    for (std::size_t at = 0; at < word.size();) {
      const auto begin = at;
      next_character(word, at);
      text.assign(word.substr(begin, at - begin));
      if (at == word.size()) text += options_.word_end;
      const bool is_known = tokens_.find(text).has_value();
      if (!is_known && !options_.unknown) continue;
      symbols.push_back(is_known ? table_.find(text) : merge_table::no_symbol);
      pieces.push_back({begin, at - begin});
    }
    // A character without a symbol may leave a gap between two that merge; pieces are looked up by what they cover.
    if (!options_.unknown) return look_up_without_gaps(word, symbols, pieces, ids);
    table_.merge(symbols, pieces, merge_order::single);
    bool was_unknown = false;
    for (const auto& p : pieces) {
      text.assign(word.substr(p.begin, p.size));
      if (p.begin + p.size == word.size()) text += options_.word_end;
      const auto id = tokens_.find(text);
      if (id || !was_unknown || !options_.fuses_unknown) ids.push_back(id ? *id : *tokens_.find(*options_.unknown));
      was_unknown = !id;
    }
  }

  void look_up_without_gaps(std::string_view word, std::vector<std::int32_t>& symbols,
                            std::vector<merge_table::piece>& pieces, token_ids& ids) const {
    std::string kept;
    const bool keeps_end = !pieces.empty() && pieces.back().begin + pieces.back().size == word.size();
    for (auto& p : pieces) {
      kept += word.substr(p.begin, p.size);
      p.begin = kept.size() - p.size;
    }
    table_.merge(symbols, pieces, merge_order::single);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      auto text = kept.substr(pieces[i].begin, pieces[i].size);
      if (keeps_end && i + 1 == pieces.size()) text += options_.word_end;
      if (const auto id = tokens_.find(text)) ids.push_back(*id);
    }
  }

  std::string decode_valid(std::span<const std::int64_t> ids) const override {
    std::string text;
    for (const auto id : ids) {
      if (added_.holds(id) || special_.holds(id)) continue;
      const std::string_view token = tokens_[id];
      if (options_.on_bytes) {
        for (std::size_t at = 0; at < token.size();) {
          const auto begin = at;
          const auto found = alphabet().bytes.find(next_character(token, at));
          if (found != alphabet().bytes.end())
            text += found->second;
          else
            text += token.substr(begin, at - begin);
        }
      } else if (!options_.word_end.empty() && token.ends_with(options_.word_end)) {
        text.append(token.substr(0, token.size() - options_.word_end.size())) += ' ';
      } else {
        text += token;
      }
    }
    if (!options_.on_bytes && text.ends_with(' ')) text.pop_back();
    return with_replacements(text);
  }

  // Bytes that are no UTF-8, as of half a character, become U+FFFD.
  static std::string with_replacements(std::string_view text) {
    std::string result;
    for (auto bad = find_bad_utf8(text); bad != std::string_view::npos; bad = find_bad_utf8(text)) {
      result.append(text.substr(0, bad)) += "\ufffd";
      text.remove_prefix(bad + 1);
    }
    return result.append(text);
  }

  std::string token_valid(std::int64_t id) const override { return tokens_[id]; }

  vocabulary tokens_;
  merge_table table_;
  byte_pair_options options_;
  added_tokens added_;
  special_ids special_;
};

} // namespace

std::unique_ptr<tokenizer> make_byte_pairs(vocabulary tokens,
                                           const std::vector<std::pair<std::string, std::string>>& merges,
                                           byte_pair_options options,
                                           std::vector<std::pair<std::string, std::int64_t>> added,
                                           special_ids special) {
  return std::make_unique<byte_pairs>(std::move(tokens), merges, std::move(options), added_tokens(std::move(added)),
                                      special);
}

} // namespace penstock::apps
