// What the source of a run did: how much it admitted, and what it waited for.
#pragma once

#include "actors/trace/record.hpp"

#include <cstdint>
#include <vector>

namespace penstock::actors {

struct source_summary {
  std::int64_t admitted = 0; ///< micro-batches; 0 where the trace does not tell, as of a simulated run
  /// Of all ranks' sources together, over the whole run's training.
  double waited_for_credit_seconds = 0; ///< the pipeline was full: as it should be
  double waited_for_data_seconds = 0;   ///< nothing was loaded yet: the loaders are too slow
};

source_summary summarize_source(const std::vector<trace_record>& records);

} // namespace penstock::actors
