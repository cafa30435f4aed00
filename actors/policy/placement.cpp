// Dealing stage replicas to ranks.
#include "actors/policy/placement.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace penstock::actors {

std::vector<int> placement::hosts(int stage) const {
  std::vector<int> found;
  for (const int rank : rank_of.at(static_cast<std::size_t>(stage)))
    if (std::find(found.begin(), found.end(), rank) == found.end()) found.push_back(rank);
  return found;
}

std::vector<int> placement::replicas_on(int stage, int rank) const {
  std::vector<int> found;
  const auto& hosts_of = rank_of.at(static_cast<std::size_t>(stage));
  for (std::size_t r = 0; r < hosts_of.size(); ++r)
    if (hosts_of[r] == rank) found.push_back(static_cast<int>(r));
  return found;
}

bool placement::is_idle(int rank) const {
  return std::all_of(rank_of.begin(), rank_of.end(),
                     [rank](const auto& stage) { return std::find(stage.begin(), stage.end(), rank) == stage.end(); });
}

placement place_in_order(const std::vector<int>& replicas, int ranks) {
  const auto workers = std::accumulate(replicas.begin(), replicas.end(), std::int64_t{0});
  if (ranks > workers)
    throw usage_error("the job has " + std::to_string(ranks) + " processes, the plan " + std::to_string(workers) +
                      " stage replicas; each process needs at least one");
  placement p;
  p.ranks = ranks;
  std::int64_t worker = 0;
  for (const int count : replicas) {
    auto& stage = p.rank_of.emplace_back();
    for (int r = 0; r < count; ++r, ++worker)
      stage.push_back(static_cast<int>(worker * ranks / workers));
  }
  return p;
}

void check_placement(const placement& p, const std::vector<int>& replicas) {
  if (p.rank_of.size() != replicas.size())
    throw usage_error("placement: given for " + std::to_string(p.rank_of.size()) + " stages, wanted " +
                      std::to_string(replicas.size()));
  for (std::size_t s = 0; s < replicas.size(); ++s) {
    if (p.rank_of[s].size() != static_cast<std::size_t>(replicas[s]))
      throw usage_error("placement: stage " + std::to_string(s) + " has " + std::to_string(p.rank_of[s].size()) +
                        " ranks, wanted " + std::to_string(replicas[s]) + ", one for each replica");
    for (const int rank : p.rank_of[s])
      if (rank < 0 || rank >= p.ranks)
        throw usage_error("placement: stage " + std::to_string(s) + " names rank " + std::to_string(rank) +
                          ", the job has " + std::to_string(p.ranks));
  }
}

} // namespace penstock::actors
