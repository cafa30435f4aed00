// Sums and their peaks; versions and who holds them.
#include "planner/machine_memory.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace penstock::planner {

void replica_memory::note(memory_part part) {
  auto& most = part_peaks_[index(part)];
  most = std::max(most, now_[index(part)]);
  // Summed anew each time: a running sum would gather rounding over a long run.
  peak_ = std::max(peak_, std::accumulate(now_.begin(), now_.end(), 0.0));
}

void replica_memory::add(memory_part part, double bytes) {
  now_[index(part)] += bytes;
  note(part);
}

void replica_memory::set(memory_part part, double bytes) {
  const bool grows = bytes > now_[index(part)];
  now_[index(part)] = bytes;
  if (grows) note(part);
}

version_ledger::version_ledger(const std::vector<const replica_list*>& lists) {
  std::int64_t updates = 0;
  for (const auto* list : lists) {
    for (const auto& a : list->actions)
      if (a.kind == action_kind::update) updates = std::max(updates, a.version);
    find_next(readers_.emplace_back(reader{list}));
  }
  holds_.resize(static_cast<std::size_t>(updates) + 1);
  hold(0);
  for (const auto& r : readers_)
    if (r.oldest == 0) hold(0);
}

void version_ledger::find_next(reader& r) {
  const auto& actions = r.list->actions;
  while (r.next < actions.size() && actions[r.next].kind != action_kind::forward)
    ++r.next;
  r.oldest = r.next < actions.size() ? actions[r.next].version : std::numeric_limits<std::int64_t>::max();
}

void version_ledger::hold(std::int64_t version) {
  if (++holds_[static_cast<std::size_t>(version)] > 1) return;
  ++alive_;
  most_ = std::max(most_, alive());
}

void version_ledger::release(std::int64_t version) {
  if (--holds_[static_cast<std::size_t>(version)] == 0) --alive_;
}

void version_ledger::pass_forward(std::size_t replica) {
  auto& r = readers_[replica];
  const auto before = r.oldest;
  ++r.next;
  find_next(r);
  for (auto v = before; v <= newest_ && v < r.oldest; ++v)
    release(v);
}

void version_ledger::begin_update() {
  is_written_apart_ = holds_[static_cast<std::size_t>(newest_)] > 1;
  most_ = std::max(most_, alive());
}

void version_ledger::end_update() {
  is_written_apart_ = false;
  release(newest_);
  hold(++newest_);
  for (const auto& r : readers_)
    if (r.oldest <= newest_) hold(newest_);
}

} // namespace penstock::planner
