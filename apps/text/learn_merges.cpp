// Pairs are counted once; a merge then touches only the words that have its pair.
#include "apps/text/learn_merges.hpp"

#include "apps/text/unicode.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <map>

namespace penstock::apps {

using namespace unicode;

namespace {

using symbol = std::uint32_t;
using pair_key = std::uint64_t;
using pair_counts = std::unordered_map<pair_key, std::int64_t>;

pair_key key_of(symbol left, symbol right) {
  return static_cast<pair_key>(left) << 32 | right;
}
symbol left_of(pair_key key) {
  return static_cast<symbol>(key >> 32);
}
symbol right_of(pair_key key) {
  return static_cast<symbol>(key);
}

struct counted_word {
  std::vector<symbol> symbols;
  std::int64_t count;
};

struct change {
  std::size_t word;
  std::vector<symbol> before;
};

class learner {
public:
  explicit learner(const word_counts& words) {
    for (const auto& [text, count] : words.by_count()) {
      counted_word word{{}, count};
      for (std::size_t at = 0; at < text.size();) {
        const auto begin = at;
        next_character(text, at);
        auto character = text.substr(begin, at - begin);
        if (at == text.size()) character += "</w>";
        word.symbols.push_back(intern(character));
      }
      words_.push_back(std::move(word));
    }
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::size_t i = 0; i + 1 < words_[w].symbols.size(); ++i) {
        const auto key = key_of(words_[w].symbols[i], words_[w].symbols[i + 1]);
        counts_[key] += words_[w].count;
        ++places_[key][w];
      }
    all_counts_ = counts_;
  }

  std::vector<std::pair<std::string, std::string>> learn(std::int64_t most, std::int64_t least_frequency) {
    std::vector<std::pair<std::string, std::string>> merges;
    if (counts_.empty()) throw error("found no word of two characters, wanted text to learn merges from");
    double threshold = static_cast<double>(counts_[most_frequent()]) / 10;
    for (std::int64_t i = 0; i < most; ++i) {
      pair_key best = 0;
      if (!counts_.empty()) best = most_frequent();
      if (counts_.empty() || (i > 0 && static_cast<double>(counts_[best]) < threshold)) {
        prune(threshold);
        counts_ = all_counts_;
        best = most_frequent();
        threshold = static_cast<double>(counts_[best]) * static_cast<double>(i) / (static_cast<double>(i) + 10000.0);
        prune(threshold);
      }
      if (counts_[best] < least_frequency) break;
      merges.emplace_back(texts_[left_of(best)], texts_[right_of(best)]);
      merge(best);
      if (i % 100 == 0) prune(threshold);
    }
    return merges;
  }

private:
  symbol intern(const std::string& text) {
    const auto [found, is_new] = symbols_.emplace(text, static_cast<symbol>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return found->second;
  }

  // UTF-8 sorts as its characters do.
  pair_key most_frequent() const {
    const auto is_less = [&](const auto& a, const auto& b) {
      if (a.second != b.second) return a.second < b.second;
      const auto& left_a = texts_[left_of(a.first)];
      const auto& left_b = texts_[left_of(b.first)];
      if (left_a != left_b) return left_a < left_b;
      return texts_[right_of(a.first)] < texts_[right_of(b.first)];
    };
    return std::max_element(counts_.begin(), counts_.end(), is_less)->first;
  }

  void prune(double threshold) {
    for (auto at = counts_.begin(); at != counts_.end();) {
      if (static_cast<double>(at->second) >= threshold) {
        ++at;
        continue;
      }
      auto& kept = all_counts_[at->first];
      kept = at->second < 0 ? kept + at->second : at->second;
      at = counts_.erase(at);
    }
  }

  void merge(pair_key pair) {
    const auto left = left_of(pair);
    const auto right = right_of(pair);
    const auto both = intern(texts_[left] + texts_[right]);
    std::vector<change> changes;
    for (const auto& [w, times] : places_[pair]) {
      if (times < 1) continue;
      auto& symbols = words_[w].symbols;
      changes.push_back({w, symbols});
      std::size_t kept = 0;
      for (std::size_t i = 0; i < symbols.size(); ++i, ++kept) {
        const bool merges = symbols[i] == left && i + 1 < symbols.size() && symbols[i + 1] == right;
        symbols[kept] = merges ? both : symbols[i];
        i += merges ? 1 : 0;
      }
      symbols.resize(kept);
    }
    counts_[pair] = 0;
    places_[pair].clear();
    for (const auto& c : changes) {
      forget(c, left, right);
      note(c.word, both);
    }
    counts_[pair] = 0;
  }

  void count(symbol left, symbol right, std::size_t word, int sign) {
    const auto key = key_of(left, right);
    counts_[key] += sign * words_[word].count;
    places_[key][word] += sign;
  }

  // The pairs around what was merged are fewer now. Of A B C B C, the pair C B is taken off once.
  void forget(const change& c, symbol left, symbol right) {
    const auto& old = c.before;
    for (std::size_t i = 0; i < old.size();) {
      if (old[i] != left || i + 1 >= old.size() || old[i + 1] != right) {
        ++i;
        continue;
      }
      if (i > 0) count(old[i - 1], old[i], c.word, -1);
      const bool again = i + 3 < old.size() && old[i + 2] == left && old[i + 3] == right;
      if (i + 2 < old.size() && !again) count(old[i + 1], old[i + 2], c.word, -1);
      i += 2;
    }
  }

  void note(std::size_t w, symbol both) {
    const auto& symbols = words_[w].symbols;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (symbols[i] != both) continue;
      if (i > 0) count(symbols[i - 1], symbols[i], w, 1);
      if (i + 1 < symbols.size() && symbols[i + 1] != both) count(symbols[i], symbols[i + 1], w, 1);
    }
  }

  std::unordered_map<std::string, symbol> symbols_;
  std::vector<std::string> texts_;
  std::vector<counted_word> words_;
  pair_counts counts_;     // subword-nmt's "stats", pruned
  pair_counts all_counts_; // and "big_stats"
  std::unordered_map<pair_key, std::unordered_map<std::size_t, std::int64_t>> places_;
};

} // namespace

std::vector<std::pair<std::string, std::string>> learn_merges(const word_counts& words, std::int64_t most,
                                                              std::int64_t least_frequency) {
  return learner(words).learn(most, least_frequency);
}

} // namespace penstock::apps
