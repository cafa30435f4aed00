// From a plan, what its layers cost and what it runs on, to a machine that the simulator plays.
#pragma once

#include "planner/cluster/cluster.hpp"
#include "planner/explore/explore.hpp"
#include "planner/machine.hpp"
#include "planner/plan/plan.hpp"
#include "planner/profile/profile.hpp"

#include <cstdint>
#include <vector>

namespace penstock::planner {

/// The plan with nothing left open: M and credits as the schedule settles them, the batch (the profile's largest
/// micro-batch where the plan says none), and devices, which stages that name none take in the cluster's order. Throws
/// std::invalid_argument, one line, for more replicas than devices, a device that the cluster lacks, and replicas of
/// one stage on several types.
plan placed(const plan& given, const profile& p, const cluster& c);

/// What each stage of a plan costs on its devices, as predict() sees it. A stage's layers are summed at the sizes of
/// its micro-batches, at its type's speed or with the type's own profile. A stage that recomputes runs its forward
/// again within its backward and keeps its inputs only. Where the level to the stage before copies (not by reference),
/// what arrives is kept as well until the backward. Where the plan freezes layers profile and cluster must have them
/// frozen (frozen_costs, with_frozen_profiles). Throws std::invalid_argument, one line, where plan, profile and
/// cluster do not fit: another model, a layer that there is not, stages that do not cover the layers or that cut where
/// the model cannot be cut.
machine machine_of(const plan& given, const profile& p, const cluster& c);

/// A flag for each of the profile's layers: whether the plan, whose layers are known, freezes it.
std::vector<bool> frozen_layers(const plan& p, const profile& of);
/// The cluster whose types' own profiles have those layers frozen.
cluster with_frozen_profiles(cluster c, const std::vector<bool>& frozen);

/// By stage, the share of the time that its replicas are busy in steady state: all of a minibatch's work over the time
/// from one to the next, so that filling and draining do not count.
std::vector<double> steady_busy(const machine_run& run, std::int64_t minibatches);

/// The rest, mean over all replicas.
double steady_bubble(const std::vector<double>& busy, const machine& m, int chunks);

} // namespace penstock::planner
