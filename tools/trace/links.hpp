// How long the messages between stages were under way, link by link.
#pragma once

#include "actors/trace/messages.hpp"
#include "actors/trace/record.hpp"

#include <cstdint>
#include <vector>

namespace penstock::actors {

/// Messages of one direction between two stages and, where the run had ranks, two ranks.
struct link_summary {
  int from_stage = 0;
  int to_stage = 0;
  int from_rank = -1;
  int to_rank = -1;
  std::int64_t messages = 0; ///< that were sent and received
  std::int64_t bytes = 0;
  double median_seconds = 0; ///< from send to receive
  double max_seconds = 0;
  double bytes_per_second = 0; ///< over the time when any of them was under way
};

/// In the order of stages and ranks.
std::vector<link_summary> summarize_links(const trace_header& header, const std::vector<message_ends>& messages);

/// The one that moves the fewest bytes a second while messages are under way; between ranks, where any links are. Links
/// whose bytes or times the trace does not tell are passed over. Null where there is no other.
const link_summary* slowest_link(const std::vector<link_summary>& links);

} // namespace penstock::actors
