// Few tokens, so a plain search will do.
#include "apps/text/added_tokens.hpp"

#include <algorithm>

namespace penstock::apps {

added_tokens::added_tokens(std::vector<std::pair<std::string, std::int64_t>> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const auto& token) { return token.first.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (const auto& token : tokens_)
    starts_[static_cast<std::uint8_t>(token.first.front())] = true;
}

const std::pair<std::string, std::int64_t>* added_tokens::find(std::string_view text) const {
  for (const auto& token : tokens_)
    if (text.starts_with(token.first)) return &token;
  return nullptr;
}

bool added_tokens::holds(std::int64_t id) const {
  return std::any_of(tokens_.begin(), tokens_.end(), [&](const auto& token) { return token.second == id; });
}

} // namespace penstock::apps
