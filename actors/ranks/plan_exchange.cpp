// One bundle from each rank to each other, sent by a thread of its own while this one receives.
#include "actors/ranks/plan_exchange.hpp"

#include "actors/ranks/channels.hpp"
#include "actors/ranks/job.hpp"

#include <future>

namespace penstock::actors {

plan_exchange::plan_exchange(const job* ranks, std::int64_t epoch) : ranks_(ranks) {
  if (ranks == nullptr) return;
  out_.emplace(*ranks, in_epoch(transfer_channel, epoch));
  in_.emplace(*ranks, in_epoch(transfer_channel, epoch));
}

std::vector<stage_snapshot> plan_exchange::move(const pipeline& from, std::map<int, stage_copy> here,
                                                const pipeline& to, memory_pool& pool) {
  auto mine = snapshots_here(from, std::move(here));
  if (ranks_ == nullptr) return mine;
  const int count = ranks_->size();
  const int rank = ranks_->rank();
  auto sent = std::async(std::launch::async, [&] {
    for (int i = 1; i < count; ++i) // each begins with another, so that no rank is asked by all at once
      out_->send((rank + i) % count, bundle_for((rank + i) % count, mine, to));
  });
  std::vector<stage_snapshot> needed = mine;
  for (int i = 1; i < count; ++i)
    merge_snapshots(needed, in_->receive((rank + count - i) % count, pool));
  sent.get();
  return needed;
}

void plan_exchange::cancel(const std::string& why) {
  if (out_) out_->cancel(why);
  if (in_) in_->cancel(why);
}

} // namespace penstock::actors
