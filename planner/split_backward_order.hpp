// The order of the schedules that split the backward: zb-h1, zb-h2.
#pragma once

#include "planner/generator.hpp"

#include <memory>

namespace penstock::planner {

/// Of one replica of one stage. A minibatch goes forward while the credit lasts, then alternates forward and
/// backward_input, as 1f1b does; a backward_weight follows once more than the stage's delayed_weight_gradients wait,
/// and all that are left stand before the minibatch's update. A stage that may delay none and has nobody before it does
/// whole backwards. (Qi and others, Zero Bubble Pipeline Parallelism, ICLR 2024: the hand-made ZB-H1 and ZB-H2.)
std::unique_ptr<generator> make_split_backward_order(const schedule& s, int stage, int replica);

} // namespace penstock::planner
