// Clocks that were measured nearly right, put right by what cannot have happened before what.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::actors {

/// The one event, read from clock `early`, came first; the other's reading of clock `late` is greater by slack_ns, or
/// less where the slack is negative: then the clocks are wrong.
struct clock_bound {
  int early = 0;
  int late = 0;
  std::int64_t slack_ns = 0;
};

/// What is added to each clock's readings. Clock 0 is right: its correction is 0.
struct clock_corrections {
  std::vector<std::int64_t> ns;
  /// 0 where the corrected readings keep every bound. Else no corrections can: the bounds contradict each other, and
  /// the least wrong ones still break one by this much.
  std::int64_t conflict_ns = 0;
};

/// The largest slack that is looked at, about thirteen days; a larger one says nothing that would be needed.
inline constexpr std::int64_t most_clock_slack_ns = std::int64_t{1} << 50;
inline constexpr int most_clocks = 4096; // sums of that many slacks cannot overflow

/// Corrections that keep every bound. Clock after clock: one whose readings keep the bounds with those before it is
/// left alone; another goes to the middle of what they leave it, as if messages took equally long both ways, or,
/// bounded on one side alone, as far as it must. Bounds are for clocks below `clocks`, at most most_clocks, with slacks
/// of at least -most_clock_slack_ns.
clock_corrections correct_clocks(int clocks, const std::vector<clock_bound>& bounds);

} // namespace penstock::actors
