// Runs plans by turns for some steps each, to take the one that is fastest in truth.
#pragma once

#include "apps/runner/options.hpp"
#include "apps/runner/part_teller.hpp"
#include "kernels/model.hpp"
#include "planner/plan/plan.hpp"

#include <memory>
#include <string>
#include <vector>

namespace penstock::apps {

class app_job; // apps/runner/app_job.hpp

/// A plan that is tried. Simpler ones stand before others: at equal speed the first is taken.
struct contender {
  planner::plan plan;
  std::vector<double> seconds; ///< of a step, one of each round
  bool is_out = false;         ///< clearly slower than another; not run any more

  double median() const; ///< 0 where it was not run
};

/// Median differences below this part are none.
constexpr double trial_tie = 0.015;

/// Index of the one to take: the first whose median is within the tie of the least. -1 where none was run.
int fastest_of(const std::vector<contender>& all);

/// Most cores that one of them computes on: by more it cannot be faster than another. 1 at least.
int most_cores(const std::vector<contender>& all);

/// Marks those whose best round is worse than the worst of the one with the least median, and clearly so: ten times
/// after one round, twice after two, by a quarter after three, by a tenth after more. By more
/// than twice what cores explain it was something else that took the time, and it is run on.
void drop_slower(std::vector<contender>& all);

/// Runs all by turns (A B C A B C ...), three to five rounds within a time that grows with the length of a step, the
/// least one round each; from the second round on without those that are clearly slower. In a job every rank calls it;
/// the contenders are rank 0's, and so is what is measured. A single one is not run. Throws
/// penstock::error when `teller` gave up.
void try_contenders(std::vector<contender>& all, const app_options& options, const std::shared_ptr<const model>& net,
                    const app_job* job, part_teller& teller);

} // namespace penstock::apps
