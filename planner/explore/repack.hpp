// What to do with a plan when more of its model is frozen: leave it, pack what is active, replicate it.
#pragma once

#include "planner/explore/explore.hpp"

#include <cstdint>
#include <string>

namespace penstock::planner {

struct freeze_point {
  int frozen_until = 0; ///< layers of the profile's order before it are frozen from here on; 0: none
  std::int64_t steps_left = 0;
  double change_seconds = 0; ///< what taking another plan costs: the pause of one that moves tensors
  /// Whether an active layer may get another number of replicas. Only where a minibatch is one update on every stage
  /// does that leave the training as it is: for synchronous schedules and 2bw.
  bool replicas_free = false;
};

struct repacking {
  plan as_is;                ///< the stages there are, with that depth: with its prediction, where it can be run
  plan best;                 ///< the fastest, with its prediction; as_is where nothing else is faster
  double saving_seconds = 0; ///< of `best` against as_is, over the steps left
  bool is_worth_it = false;  ///< to take `best` and not as_is: it saves more than the change costs, or as_is cannot run
  std::string reason;        ///< one line
};

/// Asks the planner again at a freeze point, on the table of frozen costs (frozen_costs) and with all devices of the
/// cluster. Schedule, M, batch, chunks, update lag and, where they are tight, doubled or full, credits stay as the
/// current plan has them; how many stages there are, where they are cut, whether the frozen prefix shares the first
/// active stage or has stages of its own, and with `replicas_free` the replicas are sought as make_plan() does. With
/// replicas fixed all stages keep the number that they have now; where stages have different ones only as_is remains.
///
/// `current` needs its batch and optimizer copies; where its devices are none of the cluster's they are taken in order.
/// The plans that come back name the cluster's devices and no ranks, but as_is has those of the current plan. The same
/// inputs give the same answer. Throws std::invalid_argument, one line, where the model cannot be frozen so, plan,
/// profile and cluster do not fit, the numbers make no sense, or neither as_is nor any other plan can run.
repacking repack(const profile& p, const cluster& c, const plan& current, const freeze_point& at);

} // namespace penstock::planner
