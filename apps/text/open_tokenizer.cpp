// Finds the kind that a file's content shows.
#include "apps/text/open_tokenizer.hpp"

#include "apps/text/sentencepiece.hpp"
#include "apps/text/subword_merges.hpp"
#include "apps/text/tokenizer_json.hpp"
#include "apps/text/wordpiece.hpp"
#include "apps/text/words.hpp"
#include "kernels/check.hpp"
#include "kernels/input_file.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <functional>

namespace penstock::apps {

namespace {

namespace fs = std::filesystem;

struct tokenizer_kind {
  std::string name;
  std::function<std::unique_ptr<tokenizer>(const std::string& files)> open;
};

std::unique_ptr<tokenizer> open_merges(const std::string& files) {
  const auto comma = files.find(',');
  if (comma != std::string::npos) return open_subword_merges(files.substr(0, comma), files.substr(comma + 1));
  const auto vocab = files + ".vocab";
  if (!fs::exists(vocab))
    throw usage_error(files + ": are merges, whose tokens wanted in " + vocab + " or as merges:" + files + ",VOCAB");
  return open_subword_merges(files, vocab);
}

const std::vector<tokenizer_kind>& kinds() {
  static const std::vector<tokenizer_kind> all{
      {"wordpiece", [](const std::string& file) { return open_wordpiece(file); }},
      {"wordpiece-cased", [](const std::string& file) { return open_wordpiece(file, letter_case::kept); }},
      {"wordpiece-uncased", [](const std::string& file) { return open_wordpiece(file, letter_case::lower); }},
      {"merges", open_merges},
      {"sentencepiece", [](const std::string& file) { return open_sentencepiece(file); }},
      {"words", [](const std::string& file) { return open_words(file); }},
      {"json", [](const std::string& file) { return open_tokenizer_json(file); }},
  };
  return all;
}

const tokenizer_kind* find_kind(const std::string& name) {
  const auto found = std::find_if(kinds().begin(), kinds().end(), [&](const auto& kind) { return kind.name == name; });
  return found == kinds().end() ? nullptr : &*found;
}

bool has_line(std::string_view text, std::string_view line) {
  for (auto at = text.find(line); at != std::string_view::npos; at = text.find(line, at + 1)) {
    const auto end = at + line.size();
    const bool begins = at == 0 || text[at - 1] == '\n';
    if (begins && (end == text.size() || text[end] == '\n' || text[end] == '\r')) return true;
  }
  return false;
}

// Two symbols with a blank between on each of the first lines.
bool looks_like_merges(std::string_view text) {
  if (text.starts_with("#version:")) return true;
  constexpr int looked_at = 5;
  for (int i = 0; i < looked_at && !text.empty(); ++i) {
    const auto line = text.substr(0, text.find('\n'));
    const auto blank = line.find(' ');
    const bool is_pair = blank != std::string_view::npos && blank > 0 && blank + 1 < line.size() &&
                         line.find(' ', blank + 1) == std::string_view::npos;
    if (!is_pair) return false;
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return true;
}

std::string kind_of(const std::string& file) {
  constexpr std::uint64_t largest_file = 256'000'000;
  const auto text = read_whole_file(file, largest_file);
  if (text.empty()) throw error(file + " is empty, wanted a tokenizer");
  if (is_sentencepiece(text)) return "sentencepiece";
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return "json";
  if (has_line(text, "[UNK]") || has_line(text, "[PAD]")) return "wordpiece";
  if (looks_like_merges(text)) return "merges";
  if (has_line(text, "<unk>") || has_line(text, "<eos>")) return "words";
  throw error(file + ": is no tokenizer that is known here: found no model of sentencepiece, no tokenizer.json, no "
                     "[UNK] or <unk> on a line of its own and no merges");
}

} // namespace

std::unique_ptr<tokenizer> open_tokenizer(const std::string& spec) {
  if (spec.empty()) throw usage_error("found no tokenizer, wanted a file");
  const auto colon = spec.find(':');
  if (colon != std::string::npos && !fs::exists(spec)) {
    const auto name = spec.substr(0, colon);
    std::vector<std::string> names;
    for (const auto& kind : kinds())
      names.push_back(kind.name);
    const auto* kind = find_kind(name);
    if (kind == nullptr)
      throw usage_error("unknown kind of tokenizer " + in_quotes(name) + did_you_mean(name, names) +
                        ", wanted a file or one of " + join(names, ", ") + " before its colon");
    if (colon + 1 == spec.size())
      throw usage_error("tokenizer " + in_quotes(spec) + ": wanted a file behind the colon");
    return kind->open(spec.substr(colon + 1));
  }
  return find_kind(kind_of(spec))->open(spec);
}

} // namespace penstock::apps
