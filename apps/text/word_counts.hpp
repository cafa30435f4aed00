// How often each word of a text is there, and in which order they came.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace penstock::apps {

class word_counts {
public:
  void add(std::string_view word, std::int64_t times = 1) {
    const auto [found, is_new] = places_.emplace(std::string(word), words_.size());
    if (is_new) words_.emplace_back(found->first, 0);
    words_[found->second].second += times;
  }

  /// (word, count) as they were first seen.
  const std::vector<std::pair<std::string, std::int64_t>>& as_seen() const { return words_; }
  /// The most frequent first; of equal ones the first seen.
  std::vector<std::pair<std::string, std::int64_t>> by_count() const {
    auto sorted = words_;
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return sorted;
  }

private:
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<std::pair<std::string, std::int64_t>> words_;
};

} // namespace penstock::apps
