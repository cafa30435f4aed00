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

version_ledger::version_ledger(std::vector<stage_passes> readers) : readers_(std::move(readers)) {
  hold(0);
  for (const auto& r : readers_)
    if (oldest_of(r) == 0) hold(0);
}

/// The version that the reader's next forward reads.
std::int64_t version_ledger::oldest_of(const stage_passes& reader) {
  const auto& next = reader.peek();
  return next ? next->version : std::numeric_limits<std::int64_t>::max();
}

std::int32_t& version_ledger::holds_of(std::int64_t version) {
  for (; version < first_; --first_)
    holds_.push_front(0);
  const auto offset = static_cast<std::size_t>(version - first_);
  if (offset >= holds_.size()) holds_.resize(offset + 1);
  return holds_[offset];
}

void version_ledger::hold(std::int64_t version) {
  if (++holds_of(version) > 1) return;
  ++alive_;
  most_ = std::max(most_, alive());
}

void version_ledger::release(std::int64_t version) {
  if (--holds_of(version) > 0) return;
  --alive_;
  for (; !holds_.empty() && holds_.front() == 0 && first_ < newest_; ++first_)
    holds_.pop_front();
}

void version_ledger::pass_forward(std::size_t replica) {
  auto& r = readers_[replica];
  const auto before = oldest_of(r);
  r.advance();
  const auto now = oldest_of(r);
  for (auto v = before; v <= newest_ && v < now; ++v)
    release(v);
}

void version_ledger::begin_update() {
  is_written_apart_ = holds_of(newest_) > 1;
  most_ = std::max(most_, alive());
}

void version_ledger::end_update() {
  is_written_apart_ = false;
  release(newest_);
  hold(++newest_);
  for (const auto& r : readers_)
    if (oldest_of(r) <= newest_) hold(newest_);
}

} // namespace penstock::planner
