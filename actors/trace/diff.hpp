// Two traces of the same plan side by side: what was predicted and what was, or before and after.
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

/// Times are medians of one action, of those that lie in the steady sections (summary.hpp) where there are any. Shares
/// are of the sections' time, mean over the replicas.
struct stage_difference {
  compared forward_seconds, backward_seconds, update_seconds;
  compared busy, waiting; ///< waiting: for any reason that the trace gives, an all-reduce included
};

struct trace_difference {
  /// From one minibatch to the next where the first stage is done with them: over the second half of each segment less
  /// what only empties the pipeline, all of a synchronous one; the whole run over its minibatches where that is
  /// nothing.
  compared step_seconds;
  std::vector<stage_difference> stages;
};

/// Throws penstock::error, one line, for traces of different schedules, stages, replicas or micro-batches.
trace_difference compare_traces(const trace_file& a, const trace_file& b);

std::string to_text(const trace_difference& d, const trace_file& a, const trace_file& b);
/// One JSON object, indented.
std::string to_json(const trace_difference& d, const trace_file& a, const trace_file& b);

} // namespace penstock::actors
