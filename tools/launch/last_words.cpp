// Holds a line back while it may be somebody else's last words repeated.
#include "tools/launch/last_words.hpp"

#include <algorithm>

namespace penstock::tools::launcher {

namespace {

// Ranks that say the same at their end do so within moments; a warning they all have is late by no more than this.
constexpr auto patience = std::chrono::seconds(2);

} // namespace

void last_words::said(std::size_t rank, std::string line, clock::time_point now) {
  release(rank);
  auto& mine = ranks_[rank];
  mine.is_held = std::any_of(ranks_.begin(), ranks_.end(),
                             [&](const rank_state& other) { return &other != &mine && other.last == line; });
  mine.last = std::move(line);
  mine.since = now;
  if (!mine.is_held) print_(rank, *mine.last);
}

void last_words::ended(std::size_t rank, bool has_failed) {
  if (has_failed)
    ranks_[rank].is_held = false;
  else
    release(rank);
}

void last_words::passed(clock::time_point now, bool is_ending) {
  if (is_ending) return;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (now - ranks_[rank].since > patience) release(rank);
}

void last_words::release(std::size_t rank) {
  auto& mine = ranks_[rank];
  if (!mine.is_held) return;
  mine.is_held = false;
  print_(rank, *mine.last);
}

} // namespace penstock::tools::launcher
