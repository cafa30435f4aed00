// The step time, as every tool and the run itself give it.
#pragma once

#include "actors/trace/record.hpp"

#include <cstdint>
#include <vector>

namespace penstock::actors {

/// From one minibatch to the next in steady state, where the last stage has all its losses: of each stretch between two
/// drains from the first minibatch that found the pipeline full until the last, as a run's own summary counts it. Where
/// no stretch is long enough the time of all stretchs over all minibatches. A stretch is filled and ended as its plan
/// epoch's plan has it.
struct step_time {
  double mean = 0;        ///< seconds; 0 where nothing was trained
  double median = 0;      ///< of the intervals; 0 where there is no steady state. Replicas finish in turns, so see mean
  std::int64_t steps = 0; ///< intervals counted; 0: there is no steady state
  std::int64_t minibatches = 0; ///< all that the last stage had losses of
  double minibatches_per_second() const { return mean > 0 ? 1 / mean : 0; }
};

step_time step_time_of(const trace_header& header, const std::vector<trace_record>& records);

} // namespace penstock::actors
