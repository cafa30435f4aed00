// Bounds between clocks are difference constraints, and those are shortest paths.
#include "actors/trace/clocks.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace penstock::actors {

namespace {

constexpr std::int64_t unbounded = std::int64_t{1} << 62;

/// Of [low, high], which may be open on either side: 0 if it is there, else the middle, else the nearest.
std::int64_t choose(std::int64_t low, std::int64_t high) {
  if (low <= 0 && high >= 0) return 0;
  if (low > -unbounded && high < unbounded) return low + (high - low) / 2;
  return low > 0 ? low : high;
}

/// Least slack of each ordered pair of clocks that has one: correction[early] - correction[late] <= slack.
using slacks = std::map<std::pair<int, int>, std::int64_t>;

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// The least mean slack of a cycle, rounded down; nothing negative means that corrections exist. (Karp's theorem, with
/// walks that begin anywhere.)
std::int64_t least_cycle_mean(int clocks, const slacks& given) {
  const auto n = static_cast<std::size_t>(clocks);
  std::vector<std::vector<std::int64_t>> walks(n + 1, std::vector<std::int64_t>(n, unbounded)); // by length and end
  std::fill(walks[0].begin(), walks[0].end(), 0);
  for (std::size_t k = 1; k <= n; ++k)
    for (const auto& [pair, slack] : given) {
      const auto before = walks[k - 1][static_cast<std::size_t>(pair.second)];
      auto& best = walks[k][static_cast<std::size_t>(pair.first)];
      if (before < unbounded) best = std::min(best, before + slack);
    }
  std::int64_t least = 0;
  for (std::size_t v = 0; v < n; ++v) {
    if (walks[n][v] == unbounded) continue;
    std::int64_t mean = -unbounded;
    for (std::size_t k = 0; k < n; ++k)
      if (walks[k][v] < unbounded)
        mean = std::max(mean, floor_div(walks[n][v] - walks[k][v], static_cast<std::int64_t>(n - k)));
    least = std::min(least, mean);
  }
  return least;
}

/// by_pair[a][b]: what all bounds together leave of correction[a] - correction[b].
std::vector<std::vector<std::int64_t>> closure(int clocks, const slacks& given, std::int64_t more_slack) {
  const auto n = static_cast<std::size_t>(clocks);
  std::vector<std::vector<std::int64_t>> by_pair(n, std::vector<std::int64_t>(n, unbounded));
  for (std::size_t i = 0; i < n; ++i)
    by_pair[i][i] = 0;
  for (const auto& [pair, slack] : given)
    by_pair[static_cast<std::size_t>(pair.first)][static_cast<std::size_t>(pair.second)] = slack + more_slack;
  for (std::size_t via = 0; via < n; ++via)
    for (std::size_t a = 0; a < n; ++a) {
      const auto first = by_pair[a][via];
      if (first == unbounded) continue;
      for (std::size_t b = 0; b < n; ++b)
        if (by_pair[via][b] < unbounded) by_pair[a][b] = std::min(by_pair[a][b], first + by_pair[via][b]);
    }
  return by_pair;
}

} // namespace

clock_corrections correct_clocks(int clocks, const std::vector<clock_bound>& bounds) {
  check(clocks >= 1 && clocks <= most_clocks, "a count of clocks out of range");
  slacks least;
  for (const auto& b : bounds) {
    check(b.slack_ns >= -most_clock_slack_ns, "a clock bound out of range");
    if (b.early == b.late || b.slack_ns > most_clock_slack_ns) continue;
    const auto [at, is_new] = least.try_emplace({b.early, b.late}, b.slack_ns);
    if (!is_new) at->second = std::min(at->second, b.slack_ns);
  }
  clock_corrections result;
  result.conflict_ns = -least_cycle_mean(clocks, least);
  const auto left = closure(clocks, least, result.conflict_ns);
  // The closure holds every consequence of the bounds, so whatever keeps them among the clocks set so far leaves the
  // next one a value.
  for (std::size_t next = 0; next < static_cast<std::size_t>(clocks); ++next) {
    std::int64_t low = -unbounded;
    std::int64_t high = unbounded;
    for (std::size_t set = 0; set < next; ++set) {
      if (left[next][set] < unbounded) high = std::min(high, result.ns[set] + left[next][set]);
      if (left[set][next] < unbounded) low = std::max(low, result.ns[set] - left[set][next]);
    }
    result.ns.push_back(choose(low, high));
  }
  return result;
}

} // namespace penstock::actors
