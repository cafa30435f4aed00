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

  /// `here`: copies of what the owners of `from` on this rank have. Returns what the stages of `to` on this rank need,
  /// from whatever rank has it; sends and receives at once. Throws penstock::error when a rank does not come within the
  /// job's patience.
  std::vector<stage_snapshot> move(const pipeline& from, std::map<int, stage_copy> here, const pipeline& to,
                                   memory_pool& pool);
  /// Whoever waits gets that error: the job is over. Any thread.
  void cancel(const std::string& why);

private:
  const job* ranks_;
  std::optional<bundle_transfers> out_, in_;
};

} // namespace penstock::actors
