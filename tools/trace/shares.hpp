// How the time of a stage's replicas divides into what they did.
#pragma once

#include "actors/trace/record.hpp"
#include "tools/trace/intervals.hpp"

#include <array>
#include <vector>

namespace penstock::actors {

/// Shares of the sections' time, mean over the stage's replicas. A moment of a worker counts once, for the first in
/// this order of what it had under way: forward, backward, evaluate, update, a wait by its reason, all-reduce. So an
/// update beside a wait for the version that it writes is an update, an all-reduce beside a backward is hidden by it,
/// and the shares with other() add to 1. Where the
/// worker hosts other stages too, what it did for them is no time of this one's, and no bubble either.
struct stage_shares {
  double forward = 0;
  double backward = 0;
  double update = 0;
  double evaluate = 0;
  double all_reduce = 0;                    ///< that nothing else of the worker hides
  std::array<double, wait_reasons> waits{}; ///< by wait_reason; the first one, without a reason, is none of a run's
  double busy_elsewhere = 0;                ///< of the same workers, for other stages
  double known_elsewhere = 0;               ///< the same, waits, evaluation and all-reduces included
  double busy() const { return forward + backward + update; }
  double known() const; ///< busy, evaluating, waiting or summing
  double bubble() const { return busy() + busy_elsewhere < 1 ? 1 - busy() - busy_elsewhere : 0; } ///< the worker's
  double other() const; ///< neither busy nor known to wait
};

/// By stage. All 0 where the sections have no length.
std::vector<stage_shares> shares_of(const trace_header& header, const std::vector<trace_record>& records,
                                    const std::vector<time_section>& sections);

} // namespace penstock::actors
