// The search over hierarchical plans: each stage takes whole components of a cluster's levels.
#pragma once

#include "planner/search/stage_cost.hpp"

#include <vector>

namespace penstock::planner {

/// The best hierarchical plans under the model, best first, distinct, at most request().top, each complete. They follow
/// PipeDream's recurrence (SOSP'19 section 3.1) over the cluster's levels: at level k a component is a pipeline of
/// stages, each replicated over some of the component's parts, and a part is a component of level k - 1, itself such a
/// pipeline. In the runtime's form a stage has the product of its replications. Replica i lies in part i mod m of a
/// replicated component, so the minibatches of one part stay in it at every stage within (DESIGN section 2, rule 3).
///
/// What is exact: `seconds`, in-flight counts, memory and recomputation of what is returned are the model's. The
/// recurrence charges stages with the model's own costs (PipeDream charges the all-reduce of a whole component at each
/// level; here each stage has its own, over its replicas in all components) and cuts at their level, for steady state.
/// On two levels and a chain, without flush or a memory limit, with all devices used and at most 16 ways to replicate,
/// it is the optimum. Otherwise these are approximate:
/// - Replications around a component are rounded down to powers of two at each level where there are more than 16 of
///   them (PipeDream's all-reduce has them in its (R - 1) / R only), and a cut above the second level is charged as if
///   every device sent.
/// - The in-flight count that memory is charged for follows the share of compute that lies downstream; where nothing
///   fits in the end, the search is repeated with more.
/// - With flush the recurrence minimises the bottleneck and its tail; filling and draining count in the ranking only.
/// - A branching graph is searched along its longest chain of states, and chains beyond 512 states (fewer where a level
///   has more than 32 parts) at those where least crosses.
///
/// The best for each number of stages at the top level, for each split of its parts into two stages, and pure data
/// parallelism; `origin` says "data-parallel" (one stage), "straight" (one replica each), else "hierarchical". Empty
/// where nothing is found, on fewer than two levels (search_flat has all plans there), with several device types, and
/// on levels of more than 256 parts.
std::vector<candidate> search_hierarchical(const stage_cost& model);

} // namespace penstock::planner
