// From a profile and a cluster to the plan that wins, and the ones that did not.
#pragma once

#include "planner/cluster/cluster.hpp"
#include "planner/plan/plan.hpp"
#include "planner/profile/profile.hpp"

#include <string>
#include <vector>

namespace penstock::planner {

struct plan_request {
  std::int64_t batch = 0;                 ///< samples of a minibatch; 0: the profile's largest micro-batch
  std::int64_t last_batch = 0;            ///< samples of an epoch's last minibatch where it has fewer; 0: none has
  std::vector<std::string> schedules;     ///< to be tried, "fbp-as" too; empty: all that apply
  std::vector<int> microbatches;          ///< M to be tried where M may be chosen; empty: powers of two that fit
  int stages = 0;                         ///< pinned; 0: free; of interleaved the worker positions
  int chunks = 0;                         ///< pinned, of interleaved: stages of each position; 0: free
  std::vector<int> replicas;              ///< pinned, one per stage (interleaved: per position); empty: free
  std::vector<std::string> first_layers;  ///< pinned: of stages 1, 2, ...; empty: free
  std::vector<std::string> keep_together; ///< "block1": layers whose names begin so (whole dotted parts), or "a..b"
  std::string in_flight;                  ///< pinned, as --in-flight; "": free
  std::string update_lag;                 ///< pinned, as --update-lag; "": free
  std::string frozen_until;               ///< the first layer that is trained; "": all are
  std::int64_t ahead = 0;                 ///< execution_plan::ahead, of plans that have wholly frozen stages
  int optimizer_copies = 1;               ///< of the weights, in optimizer state
  bool synchronous_only = false;
  bool clips_by_global_norm = false; ///< updates wait for all stages, so zb-h2 gains nothing over zb-h1
  bool allow_recompute = true;
  int devices = 0; ///< how many to use at most; 0: all
  std::size_t top = 20;
  std::size_t antichain_limit = 4096;
};

/// Tries schedules, micro-batch sizes, partitions, replicas, credits and recomputation (BaPipe's exploration over
/// PipeDream's and 2BW's searches); re-scores the best with the simulator, keeps what the static checker passes, and
/// explains. Replicated stages of pipedream are tried with an update lag of 0 and of 1. The fastest step of the same
/// batch wins; of those within 0.5% of it the one on fewest devices, then a synchronous one, then the one with least
/// update lag, then the one with fewest in flight, then the one whose fullest device holds least. The same inputs
/// give the same plan. Where the model keeps layers together (profile::kept_together) and no cuts are given, a plan
/// that parts some wins only where the fastest that parts none would take more than `worth_parting` (hints.hpp) times
/// as long; the reason says so where that decided. Layers before `frozen_until` cost what frozen_costs() says, and no
/// stage has a frozen layer behind an active one; the frozen ones may share the first active stage or have stages of
/// their own, which run ahead. Throws std::invalid_argument, one line, for a request that makes no sense or that a
/// schedule cannot honour, and for one that nothing fits: then it says by how many bytes the best misses and what would
/// fit (fewer in flight, recomputation, more stages).
plan make_plan(const profile& p, const cluster& c, const plan_request& request);

/// The same, and after the winner's the next best to be run against it: by speed the best of every shape (replicas of
/// the stages, schedule and M), then further cuts. From 1 to `most` plans, no two alike; where the winner parts nothing
/// that the model keeps together, none does.
std::vector<plan> make_plans(const profile& p, const cluster& c, const plan_request& request, std::size_t most);

/// Predicts a given plan on the simulator (fills plan::predicted). Throws std::invalid_argument where plan, profile and
/// cluster do not fit each other.
plan predict(const plan& given, const profile& p, const cluster& c);

} // namespace penstock::planner
