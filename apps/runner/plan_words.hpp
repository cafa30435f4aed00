// What a plan means for the training, in a few words.
#pragma once

#include "planner/plan/execution_plan.hpp"

#include <string>

namespace penstock::apps {

/// How far it goes from one minibatch an update on the newest weights: "not stale", "up to 2 updates stale, 2
/// minibatches an update at stage 0".
std::string update_text(const planner::execution_plan& p);

/// "conv1..fc3 x1, pipedream, batch 32, 1 worker of 2 threads, not stale".
std::string plan_line(const planner::execution_plan& p);

} // namespace penstock::apps
