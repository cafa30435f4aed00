// Which rank of a job hosts which stage replica.
#pragma once

#include <vector>

namespace penstock::actors {

/// Ranks by stage and replica. A plan may leave a rank idle.
struct placement {
  int ranks = 1;
  std::vector<std::vector<int>> rank_of;

  int host(int stage, int replica) const {
    return rank_of.at(static_cast<std::size_t>(stage)).at(static_cast<std::size_t>(replica));
  }
  /// Who speaks for a stage where one must: the rank of its first replica.
  int owner(int stage) const { return host(stage, 0); }
  /// The ranks that host a replica of the stage, each once, in the order of replicas.
  std::vector<int> hosts(int stage) const;
  /// The replicas of the stage on that rank, ascending.
  std::vector<int> replicas_on(int stage, int rank) const;
  /// The rank hosts nothing.
  bool is_idle(int rank) const;
};

/// Deals the replicas, stage by stage, to the ranks in order: as evenly as may be, neighbours together. Throws
/// usage_error when there are more ranks than stage replicas.
placement place_in_order(const std::vector<int>& replicas, int ranks);

/// Checks a placement made elsewhere (by a plan) against the replica list. Throws usage_error.
void check_placement(const placement& p, const std::vector<int>& replicas);

} // namespace penstock::actors
