// The interleaved order: a worker takes turns among the chunks of the model that it hosts (Narayanan et al., SC 2021,
// section 2.2, as Megatron-LM orders it).
#pragma once

#include "planner/generator.hpp"

namespace penstock::planner {

/// One minibatch of M micro-batches on worker i of n (from 1), v chunks each: Megatron's order for M' = n ceil(M / n)
/// with the micro-batches that are not there left out. Forwards come in groups of n micro-batches, chunk after chunk;
/// first 2 (n - i) + (v - 1) n of them, then one backward after each, then the backwards that are left, a stage's
/// update right after its last. Left out are actions of the full order, not places of it: who waits for a neighbour
/// does so exactly where the full order would, so the makespan is at most that of M', and in simulation never above
/// 1F1B's with n stages. (To alternate anew what is left after so many forwards can deadlock.)
///
/// With R replicas each has the micro-batches that rule 3 deals to it, and M is their number.
std::unique_ptr<generator> make_interleaved_order(const schedule& s, const worker& w);

/// K_s of every stage: the most forwards of it that the order has without their backward, for M / R micro-batches on a
/// replica (rounded up), by walking one minibatch, or as much of it as fills the pipeline.
std::vector<std::int64_t> interleaved_credits(int positions, int chunks, int replicas, int microbatches);

} // namespace penstock::planner
