// The chain of spans and messages that a run's time is made of.
#pragma once

#include "tools/trace/causes.hpp"
#include "tools/trace/intervals.hpp"

#include <cstdint>
#include <vector>

namespace penstock::actors {

/// A part of the path, summed over it.
struct path_share {
  enum class what : std::uint8_t {
    compute, ///< forwards and backwards
    update,
    link,       ///< a message under way, from `stage` to `to_stage`
    all_reduce, ///< from the last gradient until the update of a replicated stage begins
    input,      ///< the first stage waited for the source's samples
    handover    ///< everything was there and nothing ran: queues, scheduling, what the trace does not tell
  } kind = what::compute;
  int stage = 0;
  int to_stage = -1;
  double seconds = 0;
  double share = 0; ///< of the path
};

/// The path through each section: back from the span that ended last, always to what came last of all that a span
/// needed, until the section's begin. Largest share first; the shares' sum is 1, of no sections nothing.
std::vector<path_share> critical_path(const trace_header& header, const span_causes& causes,
                                      const std::vector<time_section>& sections);

/// "stage 1 compute", "link 0 -> 1", "stage 0 all-reduce".
std::string name_of(const path_share& part);

} // namespace penstock::actors
