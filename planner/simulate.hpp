// Discrete-event simulation of a schedule: the runtime's own order, credits and window under a virtual clock.
#pragma once

#include "planner/schedule.hpp"

namespace penstock::planner {

/// Times of one stage in any one unit, for one micro-batch.
struct stage_times {
  double forward = 1;
  double backward = 2;
  double update = 0;
  double send_forward = 0;  ///< latency of the activation to the next stage
  double send_backward = 0; ///< latency of the gradient to the previous stage
  double weight = -1;       ///< the weights' part of the backward, for schedules that split it; below 0: half of it
};

struct simulated_span {
  int stage = 0;
  int replica = 0;
  action what;
  double begin = 0;
  double end = 0;
};

struct simulation {
  std::vector<simulated_span> spans; ///< in order of begin
  double makespan = 0;
  std::vector<double> busy;                 ///< per stage, mean over its replicas
  int chunks = 1;                           ///< stages that a worker hosts, whose busy times add up
  std::vector<std::int64_t> peak_in_flight; ///< per stage, largest over its replicas
  double bubble() const;                    ///< 1 - busy / makespan, mean over worker positions
};

/// Throws std::invalid_argument for times that are negative or not finite, or another count than the stages', and
/// std::logic_error if it cannot run (the checker says why).
simulation simulate(const schedule& s, const std::vector<stage_times>& times);

} // namespace penstock::planner
