// Where a run's weights begin to be averaged, as its evaluations say; alike on all ranks.
#pragma once

#include "actors/policy/asgd_trigger.hpp"
#include "actors/policy/epoch_minibatches.hpp"
#include "actors/ranks/job.hpp"

#include <string>

namespace penstock::actors {

class averaging_start {
public:
  explicit averaging_start(std::int64_t patience) : patience_(patience), trigger_(patience) {}

  const asgd_trigger::history& seen() const { return trigger_.seen(); }
  /// Of a checkpoint that rank 0 has read, for all.
  void resume(asgd_trigger::history of_rank_0, const job* ranks);
  /// Whether the evaluation after so many steps is missing, which was given up when the run was stopped.
  bool lacks(std::int64_t step, const drain_plan& drains) const;
  /// Of an evaluation. Only those between epochs count, which a run has wherever it ends and is resumed. Where averages
  /// begin, a line for the log, else "".
  std::string judge(double loss, std::int64_t step, const drain_plan& drains);

private:
  std::int64_t patience_;
  asgd_trigger trigger_;
};

} // namespace penstock::actors
