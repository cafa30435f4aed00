// Whether a plan finds the memory that it needs, beside the plan that it takes over from.
#pragma once

#include "kernels/model.hpp"
#include "planner/plan/execution_plan.hpp"
#include "planner/plan/plan.hpp"

#include <string>
#include <vector>

namespace penstock::apps {

/// What the host of a rank has.
struct rank_room {
  std::string host;     ///< name, for messages
  std::string identity; ///< ranks with the same one share its memory
  double bytes = 0;
};

/// Of one replica, by stage.
struct stage_bytes {
  double at_rest = 0; ///< weights and optimizer state, all that there is between two stretches
  double running = 0; ///< what training holds at least: versions, gradients and inputs in flight as well
};
/// Counted from the model's shapes; not the layers' own buffers, so it is never too much.
std::vector<stage_bytes> least_bytes(const planner::execution_plan& p, const model& net, std::int64_t batch,
                                     int optimizer_copies);

/// Throws usage_error, one line, where a host has less than what `next` surely needs: while it trains (what it is
/// predicted to need, where that is more: one prediction a stage, or none), or at the change, beside `now`. Both are
/// settled for as many ranks as there are rooms.
void require_room(const planner::execution_plan& now, const planner::execution_plan& next,
                  const std::vector<planner::stage_prediction>& predicted, const model& net, std::int64_t batch,
                  int optimizer_copies, const std::vector<rank_room>& rooms);

} // namespace penstock::apps
