// A queue of pairs whose counts are looked at again when they come up.
#include "apps/text/learn_wordpiece.hpp"

#include "apps/text/unicode.hpp"

#include <map>
#include <queue>
#include <set>

namespace penstock::apps {

using namespace unicode;

namespace {

constexpr std::size_t most_characters = 1000;
constexpr std::string_view prefix = "##";

using id = std::uint32_t;
using id_pair = std::pair<id, id>;

struct candidate {
  std::int64_t count;
  id_pair pair;
  bool operator<(const candidate& o) const { return count != o.count ? count < o.count : pair > o.pair; }
};

struct counted_word {
  std::vector<id> symbols;
  std::int64_t count;
};

class learner {
public:
  learner(const word_counts& words, const std::vector<std::string>& special) {
    for (const auto& token : special)
      intern(token);
    learn_characters(words);
    for (const auto& [text, count] : words.as_seen())
      words_.push_back({spelt(text), count});
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::size_t i = 0; i + 1 < words_[w].symbols.size(); ++i)
        change(w, words_[w].symbols[i], words_[w].symbols[i + 1], 1);
    for (const auto& [pair, count] : counts_)
      queue_.push({count, pair});
  }

  std::vector<std::string> learn(std::size_t most, std::int64_t least_frequency) {
    while (tokens_.size() < most && !queue_.empty()) {
      const auto top = queue_.top();
      queue_.pop();
      const auto count = counts_[top.pair];
      if (count != top.count) {
        queue_.push({count, top.pair});
        continue;
      }
      if (count < 1 || count < least_frequency) break;
      std::string_view right = tokens_[top.pair.second];
      if (right.starts_with(prefix)) right.remove_prefix(prefix.size());
      merge(top.pair, intern(tokens_[top.pair.first] + std::string(right)));
    }
    return std::move(tokens_);
  }

private:
  id intern(const std::string& token) {
    const auto [found, is_new] = ids_.emplace(token, static_cast<id>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return found->second;
  }

  void learn_characters(const word_counts& words) {
    std::map<char32_t, std::int64_t> counts;
    for (const auto& [text, count] : words.as_seen())
      for (std::size_t at = 0; at < text.size();)
        counts[next_character(text, at)] += count;
    std::vector<std::pair<char32_t, std::int64_t>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    if (sorted.size() > most_characters) sorted.resize(most_characters);
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [character, count] : sorted) {
      std::string text;
      append_character(text, character);
      intern(text);
      alphabet_.insert(character);
    }
  }

  // Characters outside the alphabet are left out.
  std::vector<id> spelt(const std::string& text) {
    std::vector<id> symbols;
    for (std::size_t at = 0; at < text.size();) {
      std::string token(at == 0 ? "" : prefix);
      const auto character = next_character(text, at);
      if (!alphabet_.contains(character)) continue;
      append_character(token, character);
      symbols.push_back(intern(token));
    }
    return symbols;
  }

  void change(std::size_t w, id left, id right, int sign) {
    const id_pair pair{left, right};
    counts_[pair] += sign * words_[w].count;
    if (sign > 0) {
      places_[pair].insert(w);
      touched_.insert(pair);
    }
  }

  void merge(id_pair pair, id both) {
    touched_.clear();
    const auto places = std::move(places_[pair]);
    places_.erase(pair);
    for (const auto w : places) {
      auto& symbols = words_[w].symbols;
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (symbols[i] != pair.first || symbols[i + 1] != pair.second) continue;
        if (i > 0) {
          change(w, symbols[i - 1], symbols[i], -1);
          change(w, symbols[i - 1], both, 1);
        }
        if (i + 2 < symbols.size()) {
          change(w, symbols[i + 1], symbols[i + 2], -1);
          change(w, both, symbols[i + 2], 1);
        }
        symbols[i] = both;
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
    counts_[pair] = 0;
    for (const auto& changed : touched_)
      if (counts_[changed] > 0) queue_.push({counts_[changed], changed});
  }

  std::unordered_map<std::string, id> ids_;
  std::vector<std::string> tokens_;
  std::set<char32_t> alphabet_;
  std::vector<counted_word> words_;
  std::map<id_pair, std::int64_t> counts_;
  std::map<id_pair, std::set<std::size_t>> places_;
  std::set<id_pair> touched_;
  std::priority_queue<candidate> queue_;
};

} // namespace

std::vector<std::string> learn_wordpiece(const word_counts& words, const std::vector<std::string>& special,
                                         std::int64_t most, std::int64_t least_frequency) {
  return learner(words, special).learn(static_cast<std::size_t>(most), least_frequency);
}

} // namespace penstock::apps
