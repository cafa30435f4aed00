// Words are short: they are merged by looking again and again. Long ones go through a queue.
#include "apps/text/merge_table.hpp"

#include <algorithm>
#include <queue>

namespace penstock::apps {

namespace {

constexpr std::size_t long_word = 48; // symbols

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

} // namespace

merge_table::merge_table(const std::vector<std::pair<std::string, std::string>>& merges) {
  merges_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto left = intern(merges[rank].first);
    const auto right = intern(merges[rank].second);
    const auto both = intern(merges[rank].first + merges[rank].second);
    merges_.emplace(key_of(left, right), merged{static_cast<std::uint32_t>(rank), both});
  }
}

std::int32_t merge_table::intern(const std::string& symbol) {
  return symbols_.emplace(symbol, static_cast<std::int32_t>(symbols_.size())).first->second;
}

std::int32_t merge_table::find(std::string_view symbol) const {
  const auto found = symbols_.find(std::string(symbol));
  return found == symbols_.end() ? no_symbol : found->second;
}

const merge_table::merged* merge_table::pair_of(std::int32_t left, std::int32_t right) const {
  if (left == no_symbol || right == no_symbol) return nullptr;
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void merge_table::merge(std::vector<std::int32_t>& symbols, std::vector<piece>& pieces, merge_order order) const {
  if (symbols.size() > long_word)
    merge_long(symbols, pieces, order);
  else
    merge_short(symbols, pieces, order);
}

void merge_table::merge_short(std::vector<std::int32_t>& symbols, std::vector<piece>& pieces, merge_order order) const {
  while (symbols.size() > 1) {
    const merged* best = nullptr;
    std::size_t first = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto* here = pair_of(symbols[i], symbols[i + 1]);
      if (here == nullptr || (best != nullptr && here->rank >= best->rank)) continue;
      best = here;
      first = i;
    }
    if (best == nullptr) return;
    const auto left = symbols[first];
    const auto right = symbols[first + 1];
    std::size_t kept = first;
    bool is_open = true; // may merge more
    for (std::size_t i = first; i < symbols.size(); ++i, ++kept) {
      symbols[kept] = symbols[i];
      pieces[kept] = pieces[i];
      if (!is_open || symbols[i] != left || i + 1 == symbols.size() || symbols[i + 1] != right) continue;
      symbols[kept] = best->symbol;
      pieces[kept].size += pieces[i + 1].size;
      ++i;
      is_open = order == merge_order::rounds;
    }
    symbols.resize(kept);
    pieces.resize(kept);
  }
}

// The same by a chain of pieces and a queue of pairs by (rank, place); entries are checked when they come up.
void merge_table::merge_long(std::vector<std::int32_t>& symbols, std::vector<piece>& pieces, merge_order order) const {
  struct candidate {
    std::uint32_t rank;
    std::size_t at;
    std::int32_t left, right;
    bool operator>(const candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
  };
  constexpr std::size_t none = SIZE_MAX;
  const auto count = symbols.size();
  std::vector<std::size_t> next(count), previous(count);
  for (std::size_t i = 0; i < count; ++i) {
    next[i] = i + 1 < count ? i + 1 : none;
    previous[i] = i > 0 ? i - 1 : none;
  }
  std::priority_queue<candidate, std::vector<candidate>, std::greater<>> queue;
  const auto offer = [&](std::size_t at) {
    if (at == none || next[at] == none) return;
    const auto* found = pair_of(symbols[at], symbols[next[at]]);
    if (found != nullptr) queue.push({found->rank, at, symbols[at], symbols[next[at]]});
  };
  for (std::size_t i = 0; i + 1 < count; ++i)
    offer(i);
  std::vector<candidate> round;
  std::vector<std::size_t> made;
  std::vector<bool> is_gone(count);
  while (!queue.empty()) {
    round.assign(1, queue.top());
    queue.pop();
    while (order == merge_order::rounds && !queue.empty() && queue.top().rank == round.front().rank) {
      round.push_back(queue.top());
      queue.pop();
    }
    made.clear();
    for (const auto& c : round) {
      const bool stands =
          !is_gone[c.at] && next[c.at] != none && symbols[c.at] == c.left && symbols[next[c.at]] == c.right;
      if (!stands) continue;
      const auto right = next[c.at];
      symbols[c.at] = pair_of(c.left, c.right)->symbol;
      pieces[c.at].size += pieces[right].size;
      is_gone[right] = true;
      next[c.at] = next[right];
      if (next[right] != none) previous[next[right]] = c.at;
      made.push_back(c.at);
    }
    for (const auto at : made) {
      offer(previous[at]);
      offer(at);
    }
  }
  std::size_t kept = 0;
  for (std::size_t at = 0; at != none; at = next[at], ++kept) {
    symbols[kept] = symbols[at];
    pieces[kept] = pieces[at];
  }
  symbols.resize(kept);
  pieces.resize(kept);
}

} // namespace penstock::apps
