// What the owners of one plan epoch have learnt goes to those of the next, from rank to rank, by global name.
#pragma once

#include "actors/ranks/stage_snapshot.hpp"

#include <optional>

namespace penstock::actors {

/// Of one change; every rank of the job makes one.
class plan_exchange {
public:
  /// `ranks` null: one process. `epoch`: the one that takes over.
  plan_exchange(const job* ranks, std::int64_t epoch);

  /// `here`: what the owners of `from` on this rank have, as stored. Returns what the stages of `to` on this rank need,
  /// from whatever rank has it, in memory of `pool` where that is another; sends and receives at once. A tensor travels
  /// as it lies where both sides lay it out alike, else plain. Throws penstock::error when a rank does not come within
  /// the job's patience.
  std::vector<stage_snapshot> move(pipeline& from, std::map<int, stage_copy> here, const pipeline& to,
                                   memory_pool& pool);
  /// Between the job's ranks by move(), all of them together.
  std::int64_t bytes_moved() const { return bytes_moved_; }
  /// Whoever waits gets that error: the job is over. Any thread.
  void cancel(const std::string& why);

private:
  std::vector<std::map<std::string, std::string>> share_layouts(const pipeline& to) const;

  const job* ranks_;
  std::int64_t epoch_;
  std::int64_t bytes_moved_ = 0;
  std::optional<bundle_transfers> out_, in_;
};

} // namespace penstock::actors
