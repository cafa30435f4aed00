// Two traces of one model side by side: predicted and run, before and after, one plan and another.
#pragma once

#include "actors/trace/reader.hpp"

#include <string>
#include <vector>

namespace penstock::actors {

/// One number of both traces.
struct compared {
  double a = 0;
  double b = 0;
  double ratio() const { return a > 0 ? b / a : 0; } ///< b / a; 0 where a is 0
};

/// Times are medians of one action (summary.hpp); shares are of the sections' time, mean over the replicas.
struct stage_difference {
  compared forward_seconds, backward_seconds, update_seconds;
  compared busy, waiting; ///< waiting: for any reason that the trace gives, an all-reduce included
};

struct trace_difference {
  std::vector<std::string> differences; ///< of the plans, one line each: "schedule: pipedream in A, 2bw in B"
  compared step_seconds;                ///< mean, of steady state (steps.hpp)
  compared step_median_seconds;
  compared busy, waiting, bubble; ///< mean over all replicas of all stages
  compared staleness;             ///< updates that a micro-batch's gradient missed, mean over stages and micro-batches
  compared bytes;                 ///< that stages sent each other a minibatch
  /// Where both ran under one plan with the same layers in each stage; else empty. Forwards and backwards are of a
  /// micro-batch, or, where the two cut minibatches into different numbers of them, of a minibatch.
  std::vector<stage_difference> stages;
  bool is_per_minibatch = false;
};

/// Throws penstock::error, one line, for traces of different models, or of the same with other layers.
trace_difference compare_traces(const trace_file& a, const trace_file& b);

std::string to_text(const trace_difference& d, const trace_file& a, const trace_file& b);
/// One JSON object, indented.
std::string to_json(const trace_difference& d, const trace_file& a, const trace_file& b);

} // namespace penstock::actors
