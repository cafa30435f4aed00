// The longest chain of states, and a shorter one that follows the compute.
#include "planner/search/state_chain.hpp"

#include <algorithm>
#include <numeric>

namespace penstock::planner {

namespace {

std::vector<int> longest(const layer_graph& graph, const load_table& loads) {
  const auto n = static_cast<std::size_t>(graph.states());
  std::vector<int> length(n, 0), before(n, -1);
  std::vector<double> bytes(n, 0);
  for (int to = 1; to < graph.states(); ++to) {
    const auto t = static_cast<std::size_t>(to);
    for (int from = 0; from < to; ++from) {
      if (!graph.reaches(from, to)) continue;
      const auto f = static_cast<std::size_t>(from);
      if (before[t] >= 0 && (length[f] + 1 < length[t] || (length[f] + 1 == length[t] && bytes[f] >= bytes[t])))
        continue;
      length[t] = length[f] + 1;
      bytes[t] = bytes[f];
      before[t] = from;
    }
    bytes[t] += loads.crossing_bytes(to);
  }
  std::vector<int> chain;
  for (int s = graph.states() - 1; s >= 0; s = before[static_cast<std::size_t>(s)])
    chain.push_back(s);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

// Of each share of the compute, the inner state where least crosses.
std::vector<int> thinned(const std::vector<int>& chain, const load_table& loads, int most) {
  const auto seconds_until = [&](int state) {
    const auto load = loads.between(chain.front(), state);
    return load.forward_seconds + load.backward_seconds;
  };
  const auto share = seconds_until(chain.back()) / (most - 1);
  std::vector<int> kept{chain.front()};
  int share_of_last = -1;
  for (std::size_t i = 1; i + 1 < chain.size(); ++i) {
    const auto which = share > 0 ? std::min(most - 3, static_cast<int>(seconds_until(chain[i]) / share)) : 0;
    if (which != share_of_last)
      kept.push_back(chain[i]);
    else if (loads.crossing_bytes(chain[i]) < loads.crossing_bytes(kept.back()))
      kept.back() = chain[i];
    share_of_last = which;
  }
  kept.push_back(chain.back());
  return kept;
}

} // namespace

std::vector<int> longest_chain(const layer_graph& graph, const load_table& loads, int most) {
  std::vector<int> chain(static_cast<std::size_t>(graph.states()));
  std::iota(chain.begin(), chain.end(), 0);
  if (!graph.is_chain()) chain = longest(graph, loads);
  if (static_cast<int>(chain.size()) <= most) return chain;
  return most > 2 ? thinned(chain, loads, most) : std::vector<int>{chain.front(), chain.back()};
}

} // namespace penstock::planner
