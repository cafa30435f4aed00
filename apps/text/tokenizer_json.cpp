// Reads the file once, collects whatever is not supported, then builds one of two tokenizers.
#include "apps/text/tokenizer_json.hpp"

#include "apps/text/byte_pairs.hpp"
#include "apps/text/wordpiece.hpp"
#include "kernels/check.hpp"
#include "kernels/input_file.hpp"
#include "kernels/text.hpp"
#include "planner/profile/json_reader.hpp"

#include <algorithm>

namespace penstock::apps {

namespace {

using planner::json_value;
using added_list = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::uint64_t largest_file = 256'000'000;
constexpr std::int64_t most_tokens = 10'000'000;

// Absent and null are the same in these files.
std::optional<json_value> member(const json_value& object, const std::string& key) {
  auto found = object.find(key);
  if (found && found->is_null()) return std::nullopt;
  return found;
}

bool flag_of(const json_value& object, const std::string& key, bool otherwise) {
  const auto found = member(object, key);
  return found ? found->flag() : otherwise;
}

std::string type_of(const std::optional<json_value>& part) {
  return part ? part->at("type").text() : "null";
}

class reader {
public:
  explicit reader(json_value root) : root_(std::move(root)), model_(root_.at("model")) {}

  std::unique_ptr<tokenizer> read() {
    const auto type = model_type();
    read_added();
    read_template();
    if (type == "WordPiece") return read_wordpiece();
    if (type == "BPE") return read_byte_pairs();
    refuse("the model " + type);
    expect_supported();
    return nullptr;
  }

private:
  std::string model_type() const {
    if (const auto type = member(model_, "type")) return type->text();
    return member(model_, "merges") ? "BPE" : "WordPiece";
  }

  void refuse(const std::string& what) { unsupported_.push_back(what); }

  void expect_supported() const {
    if (!unsupported_.empty())
      throw error("not supported: " + join(unsupported_, "; ") +
                  " (supported are WordPiece as BERT uses it and BPE on bytes or on words between white space)");
  }

  void read_added() {
    const auto list = member(root_, "added_tokens");
    if (!list) return;
    const bool is_plain = !member(root_, "normalizer");
    for (const auto& token : list->items()) {
      const auto content = token.at("content").text();
      added_.emplace_back(content, token.at("id").whole(0, most_tokens));
      for (const auto* key : {"single_word", "lstrip", "rstrip"})
        if (flag_of(token, key, false)) refuse("the added token " + in_quotes(content) + " with " + key);
      if (flag_of(token, "normalized", false) && !is_plain)
        refuse("the added token " + in_quotes(content) + " in normalised text");
    }
  }

  // The tokens around a single sequence.
  void read_template() {
    const auto post = member(root_, "post_processor");
    const auto type = type_of(post);
    if (type == "TemplateProcessing") {
      read_template_of(*post);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      special_.begin = post->at("cls").items().at(1).whole(0, most_tokens);
      special_.end = post->at("sep").items().at(1).whole(0, most_tokens);
    } else if (type != "ByteLevel" && type != "null") {
      refuse("the post-processor " + type);
    }
  }

  void read_template_of(const json_value& post) {
    bool is_behind = false;
    for (const auto& item : post.at("single").items()) {
      const auto token = member(item, "SpecialToken");
      if (!token) {
        is_behind = true;
        continue;
      }
      const auto name = token->at("id").text();
      const auto ids = post.at("special_tokens").at(name).at("ids").items();
      auto& place = is_behind ? special_.end : special_.begin;
      if (ids.size() != 1 || place)
        refuse("the template with more than one token before or behind the sequence");
      else
        place = ids.front().whole(0, most_tokens);
    }
  }

  vocabulary read_vocabulary() {
    std::vector<std::optional<std::string>> tokens;
    const auto put = [&](const std::string& token, std::int64_t id) {
      const auto at = static_cast<std::size_t>(id);
      if (tokens.size() <= at) tokens.resize(at + 1);
      if (tokens[at] && *tokens[at] != token)
        throw error("found the id " + std::to_string(id) + " for " + in_quotes(*tokens[at]) + " and for " +
                    in_quotes(token) + ", wanted one token an id");
      tokens[at] = token;
    };
    for (const auto& [token, id] : model_.at("vocab").members())
      put(token, id.whole(0, most_tokens));
    for (const auto& [token, id] : added_)
      put(token, id);
    std::vector<std::string> all;
    for (const auto& token : tokens) {
      if (!token)
        throw error("found no token with the id " + std::to_string(all.size()) + " of " +
                    std::to_string(tokens.size()) + ", wanted ids without holes");
      all.push_back(*token);
    }
    if (all.empty()) throw error("found no tokens, wanted a vocabulary");
    return vocabulary(std::move(all), 0);
  }

  void find_specials(const vocabulary& tokens, const std::optional<std::string>& unknown) {
    const auto first_of = [&](std::initializer_list<const char*> names) -> std::optional<std::int64_t> {
      for (const auto* name : names)
        if (const auto id = tokens.find(name)) return id;
      return std::nullopt;
    };
    for (const auto& id : {special_.begin, special_.end})
      if (id && *id >= tokens.size())
        throw error("found the id " + std::to_string(*id) + " in the post-processor, wanted one below " +
                    std::to_string(tokens.size()));
    special_.unknown = unknown ? tokens.find(*unknown) : std::nullopt;
    special_.pad = first_of({"[PAD]", "<pad>"});
    special_.mask = first_of({"[MASK]", "<mask>"});
  }

  std::unique_ptr<tokenizer> read_wordpiece() {
    wordpiece_options options;
    options.words.dialect = bert_dialect::tokenizers;
    const auto normalizer = member(root_, "normalizer");
    if (type_of(normalizer) == "BertNormalizer") {
      options.words.lower_case = normalizer->at("lowercase").flag();
      options.words.strip_accents = flag_of(*normalizer, "strip_accents", options.words.lower_case);
      options.words.splits_cjk = normalizer->at("handle_chinese_chars").flag();
      if (!normalizer->at("clean_text").flag()) refuse("a BertNormalizer that does not clean text");
    } else {
      refuse("the normalizer " + type_of(normalizer) + " for WordPiece");
    }
    if (const auto type = type_of(member(root_, "pre_tokenizer")); type != "BertPreTokenizer")
      refuse("the pre-tokenizer " + type + " for WordPiece");
    const auto decoder = member(root_, "decoder");
    if (const auto type = type_of(decoder); type == "WordPiece")
      options.cleans_up_spaces = flag_of(*decoder, "cleanup", true);
    else if (type != "null")
      refuse("the decoder " + type + " for WordPiece");
    options.unknown = model_.at("unk_token").text();
    if (const auto prefix = member(model_, "continuing_subword_prefix")) options.prefix = prefix->text();
    if (options.prefix.empty()) refuse("WordPiece without a prefix");
    if (const auto most = member(model_, "max_input_chars_per_word"))
      options.longest_word = static_cast<std::size_t>(most->whole(1, most_tokens));
    expect_supported();
    auto tokens = read_vocabulary();
    find_specials(tokens, options.unknown);
    return make_wordpiece(std::move(tokens), std::move(options), std::move(added_), special_);
  }

  void read_normalizer(const json_value& part, std::vector<text_step>& steps) {
    const auto type = part.at("type").text();
    if (type == "Sequence") {
      for (const auto& inner : part.at("normalizers").items())
        read_normalizer(inner, steps);
      return;
    }
    const std::vector<std::pair<std::string, text_step>> known{{"NFC", text_step::nfc},
                                                               {"NFD", text_step::nfd},
                                                               {"NFKC", text_step::nfkc},
                                                               {"NFKD", text_step::nfkd},
                                                               {"Lowercase", text_step::lower_case}};
    for (const auto& [name, step] : known)
      if (name == type) return steps.push_back(step);
    refuse("the normalizer " + type + " for BPE");
  }

  std::unique_ptr<tokenizer> read_byte_pairs() {
    byte_pair_options options;
    if (const auto part = member(root_, "normalizer")) read_normalizer(*part, options.normalizer);
    const auto pre = member(root_, "pre_tokenizer");
    const auto type = type_of(pre);
    options.on_bytes = type == "ByteLevel";
    if (options.on_bytes) {
      options.adds_prefix_space = pre->at("add_prefix_space").flag();
      options.splits_words = flag_of(*pre, "use_regex", true);
    } else if (type != "WhitespaceSplit") {
      refuse("the pre-tokenizer " + type + " for BPE");
    }
    const auto decoder = type_of(member(root_, "decoder"));
    if (decoder != (options.on_bytes ? "ByteLevel" : "BPEDecoder") && decoder != "null")
      refuse("the decoder " + decoder + " with the pre-tokenizer " + type);
    if (const auto end = member(model_, "end_of_word_suffix")) options.word_end = end->text();
    if (const auto unknown = member(model_, "unk_token")) options.unknown = unknown->text();
    options.fuses_unknown = flag_of(model_, "fuse_unk", false);
    options.whole_words_first = flag_of(model_, "ignore_merges", false);
    if (member(model_, "dropout")) refuse("dropout of merges");
    if (flag_of(model_, "byte_fallback", false)) refuse("byte fallback");
    if (const auto prefix = member(model_, "continuing_subword_prefix"); prefix && !prefix->text().empty())
      refuse("BPE with a prefix of pieces");
    expect_supported();
    auto tokens = read_vocabulary();
    find_specials(tokens, options.unknown);
    return make_byte_pairs(std::move(tokens), read_merges(), std::move(options), std::move(added_), special_);
  }

  // "a b", or ["a", "b"] since version 0.20 of the library.
  std::vector<std::pair<std::string, std::string>> read_merges() const {
    std::vector<std::pair<std::string, std::string>> merges;
    for (const auto& item : model_.at("merges").items()) {
      if (item.is_list()) {
        const auto pair = item.items();
        if (pair.size() != 2) item.refuse("two symbols");
        merges.emplace_back(pair[0].text(), pair[1].text());
        continue;
      }
      const auto text = item.text();
      const auto blank = text.find(' ');
      if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos)
        item.refuse("two symbols with a blank between");
      merges.emplace_back(text.substr(0, blank), text.substr(blank + 1));
    }
    return merges;
  }

  json_value root_;
  json_value model_;
  added_list added_;
  special_ids special_;
  std::vector<std::string> unsupported_;
};

} // namespace

std::unique_ptr<tokenizer> open_tokenizer_json(const std::filesystem::path& file) {
  const auto text = read_whole_file(file, largest_file);
  const auto named = [&](const std::string& what) {
    return what.starts_with(file.string()) ? what : file.string() + ": " + what;
  };
  try {
    const auto parsed = planner::parse_json(text, file.string());
    return reader(json_value(parsed, file.string())).read();
  } catch (const std::invalid_argument& fault) {
    throw error(named(fault.what()));
  } catch (const std::out_of_range&) {
    throw error(named("post_processor: wanted a token and its id in cls and in sep"));
  } catch (const error& fault) {
    throw error(named(fault.what()));
  }
}

} // namespace penstock::apps
