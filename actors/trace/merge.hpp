// The files that the ranks of one run wrote, as one trace on one clock.
#pragma once

#include "actors/trace/record.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace penstock::actors {

/// What merge_traces wrote.
struct merged_trace {
  trace_header header;
  std::int64_t records = 0;
  /// By rank: added to its file's times. The measured offset, the same for all ranks of a host, and what was needed
  /// beside it so that nothing is received before it was sent; 0 for a rank without a file.
  std::vector<std::int64_t> shifts_ns;
  std::int64_t most_corrected_ns = 0; ///< the largest of what was needed beside the measured offsets
};

/// Writes one trace of all ranks to `out`, whole or not at all: a process for each rank, times on rank 0's clock, each
/// record with its rank. A rank whose file is not among `files`, cannot be read or is incomplete leaves the result
/// incomplete, with the rank named. All files tell the same changes of plan; one that was never closed may lack the
/// last of them. Throws penstock::error, one line, when a file is of no rank or of another run, two are of one rank,
/// none can be read, the clocks are days apart, or `out` cannot be written or is one of them.
merged_trace merge_traces(const std::vector<std::filesystem::path>& files, const std::filesystem::path& out);

} // namespace penstock::actors
