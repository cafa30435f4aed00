// Tokens that are found in the text before anything else is done to it, such as [MASK].
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::apps {

/// Splits text at the tokens it was made of: the leftmost, of those the longest. Immutable.
class added_tokens {
public:
  added_tokens() = default;
  explicit added_tokens(std::vector<std::pair<std::string, std::int64_t>> tokens);

  /// Calls `text(part)` for what lies between and `token(id)` for what was found, from left to right.
  template <class OnText, class OnToken>
  void split(std::string_view whole, OnText on_text, OnToken on_token) const {
    std::size_t begin = 0;
    for (std::size_t at = 0; at < whole.size();) {
      const auto* found = starts_[static_cast<std::uint8_t>(whole[at])] ? find(whole.substr(at)) : nullptr;
      if (found == nullptr) {
        ++at;
        continue;
      }
      if (at > begin) on_text(whole.substr(begin, at - begin));
      on_token(found->second);
      at += found->first.size();
      begin = at;
    }
    if (begin < whole.size()) on_text(whole.substr(begin));
  }
  bool holds(std::int64_t id) const;

private:
  const std::pair<std::string, std::int64_t>* find(std::string_view text) const;

  std::vector<std::pair<std::string, std::int64_t>> tokens_; // longest first
  std::array<bool, 256> starts_{};
};

} // namespace penstock::apps
