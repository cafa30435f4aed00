// The planner of PipeDream-2BW: equal replicas on every stage, and recomputation on all stages or on none.
#pragma once

#include "planner/search/stage_cost.hpp"

#include <vector>

namespace penstock::planner {

/// Seconds of one micro-batch in steady state under 2BW's own model (ICML'21 sections 3.3 and 4), over the w replicas
/// of every stage:
///
///     max over stages i of max( T_i^comp + sum over neighbours j of T_ji^comm, T_i^AR / m(b) ) / w
///
/// with m(b) = M / w micro-batches of a replica per update, T^comp with the forward pass again where the stage
/// recomputes, and T_ji^comm = 2 x bytes / bandwidth: messages do not overlap with compute here, the all-reduce does.
/// The candidate's stages must have equal replicas. (The paper prints b / t as throughput; w replicas do that at once.)
double two_buffer_seconds(const stage_cost& model, const candidate& c);

/// 2BW's planner: all widths w and depths d with w x d devices at most, and for each pair the partition into d stages
/// that two_buffer_seconds is least for, exactly, among those that fit; recomputation on every stage if it is allowed
/// and nothing fits without. Memory and in-flight counts are the model's, which unlike the paper's formula count
/// gradients and optimizer state. Stage replicas are neighbours in the cluster, so that the all-reduce takes the fast
/// links; the last stage has the last devices.
///
/// Best first by two_buffer_seconds, at most request().top; each candidate's `seconds` are the shared model's, so that
/// they compare with other searches'; `origin` is "2bw". The micro-batches are request().microbatches: the caller tries
/// several. A branching graph is searched along its longest chain of states (at most 512, as search_hierarchical).
/// Empty where nothing fits and with several device types. Throws std::invalid_argument unless the request charges an
/// update every minibatch.
std::vector<candidate> search_two_buffer(const stage_cost& model);

} // namespace penstock::planner
