// The cost model that every search minimises: what a stage, a link and a whole partition cost, and whether they fit.
#pragma once

#include "planner/search/candidate.hpp"

#include <cstdint>
#include <vector>

namespace penstock::planner {

/// The parts of a partition's time. Over its stages and links `sum` adds up, of `most` and `tail` the largest counts.
struct cost_terms {
  double sum = 0;  ///< filling and draining, once per flush
  double most = 0; ///< the bottleneck
  double tail = 0; ///< what is left after the last backward: all-reduce that could not hide, update
  double seconds() const { return sum + most + tail; }
};
/// The terms of both together.
inline cost_terms operator+(const cost_terms& a, const cost_terms& b) { // the searches' innermost loop
  return {a.sum + b.sum, a.most < b.most ? b.most : a.most, a.tail < b.tail ? b.tail : a.tail};
}

/// An all-reduce among a stage's replicas: the slowest of the levels that it spans.
struct ring_cost {
  struct level {
    double latency_s = 0;
    double seconds_per_byte = 0;
    friend bool operator==(const level&, const level&) = default;
  };
  std::vector<level> levels;
  double seconds(double bytes) const;
  friend bool operator==(const ring_cost&, const ring_cost&) = default;
};

/// What a stage may do beside its layers and replicas.
struct stage_options {
  std::int64_t update_lag = 0;
  bool recompute = false;
};

/// Between two neighbouring stages whose micro-batches are dealt in turn (DESIGN section 2 rule 3).
struct link_cost {
  double latency_s = 0;        ///< of the slowest pair of devices that exchange messages
  double seconds_per_byte = 0; ///< one message alone, slowest pair
  double period_per_byte = 0;  ///< seconds of the busiest link per micro-batch, both directions
};

/// Micro-batches (minibatches where M = 1) of `samples`, on this cluster, under this request. With f, b the forward and
/// backward seconds of a stage, c = f + b + A (1 - 1/m) (A the cost of adding to gradients that are there, m the
/// micro-batches of one replica per update; with recomputation b includes f), u the update, a the ring all-reduce of
/// its weights, R its replicas, M the micro-batches of a minibatch, K its credit:
///
/// - every_group (PipeDream, SOSP'19 section 3.1, its max form where it holds): (f + max(b, a) + u) / R. The all-reduce
///   hides behind the backward that feeds it alone: the next forward in the list reads what the update writes, for any
///   K. With an update lag it hides behind the next minibatches: max(f + b + u, a + messages) / R, for on one level of
///   links a device's all-reduce and its messages (what comes in and what goes out, each way) take turns. A replicated
///   stage takes the request's lag where that fits.
/// - every_minibatch (2BW, ICML'21, its pipelined time): max(c M / R + u, a) / M.
/// - flush (BaPipe's T for 1F1B, made exact for one stage of R replicas): the sum of c over the stages and of both
///   transfers over the links, + the largest of (ceil(M / R) - 1) c and (M - 1) x a link's period, + the largest of
///   max(0, a - b) + u. A wholly frozen stage runs ahead over flushes, so it counts in the bottleneck alone.
///
/// A link's period is 2 x bytes / (bandwidth x min(R_s, R_s+1)) on one level: PipeDream's 2 a / B, spread over the
/// replicas' links. On full duplex activations and gradients could overlap in half of it, but 1F1B's credits keep full
/// speed only up to 2 x transfer <= c (BaPipe's condition for SO), which is the same bound; what half duplex loses
/// beyond, the simulator tells. On a shared level all flows add. Latency delays but takes no bandwidth. With several
/// levels each device's share of the messages at each level counts, and the busiest decides. References within a
/// process are charged like bytes: caches move them.
///
/// Memory of a replica: frozen weights once, weights x (versions + gradient sets + optimizer copies) + K x kept +
/// workspace + one input and one output in transit, + its share of what minibatches hand on (a column's bytes x the
/// minibatch x blocks / R, the blocks being the least common multiple of all replica counts), + K x input where the
/// receiver holds copies (some level is not by_reference). With recomputation K x input + one kept set instead. An
/// update lag holds so many versions and gradient sets more (in the hopeful estimate so many of one of the two).
/// Versions are K where they follow it. K = V_s, or ceil(M / R) for schedules that hold a whole minibatch, never more
/// than ceil(M / R) with flush. A stage recomputes only where the request allows it and it does not fit otherwise. Of
/// a wholly frozen stage nothing is counted K times.
///
/// All this is the cautious estimate; the hopeful one (`estimate`) charges a full-duplex link one direction, a flush no
/// all-reduce, and memory neither workspace nor transit. What is best lies between, and a simulation tells.
class stage_cost {
public:
  /// Graph, cluster and request must outlive it. Throws std::invalid_argument for a request that makes no sense (one
  /// line), and for a device type's own profile that has other layers.
  stage_cost(const profile& p, const layer_graph& graph, const cluster& c, const search_request& request);

  const layer_graph& graph() const { return graph_; }
  const cluster& on() const { return cluster_; }
  const search_request& request() const { return request_; }
  /// Of a device type.
  const load_table& loads(int type) const { return loads_[static_cast<std::size_t>(type)]; }
  /// Of a stage on so many replicas of a type, with what one of them holds from minibatch to minibatch. `column_blocks`
  /// 0: the request's.
  stage_load load(int type, int from, int to, int replicas, std::int64_t column_blocks = 0) const;
  /// Whether minibatches hand something on: then what a stage's replica holds depends on how many there are.
  bool hands_on() const { return hands_on_; }
  double memory_limit(int type) const; ///< of a device; 0: none

  /// K_s of a stage with `downstream` devices in later stages.
  std::int64_t in_flight(int replicas, int downstream) const;
  /// False where the runtime would refuse: 2bw needs M >= (K_s - 1) R_s.
  bool admits(int replicas, std::int64_t in_flight) const;
  /// False where the columns of a minibatch, in the request's blocks, would not keep to one replica each.
  bool keeps_columns(int replicas) const;
  double memory_bytes(const stage_load& load, std::int64_t in_flight, const stage_options& how) const;
  /// The largest K that fits on a device of the type, 0 if none; very large where memory is not limited.
  std::int64_t most_in_flight(const stage_load& load, int type, const stage_options& how) const;
  /// All that the request allows. A lag comes first: it costs no time, and replicas that need not wait for one another
  /// gain more from it than this model knows.
  const std::vector<stage_options>& options() const { return options_; }

  /// By how much the stage misses a device's memory, recomputation used where allowed; 0 where it fits.
  double excess_bytes(const stage_load& load, int type, std::int64_t in_flight) const;

  ring_cost ring(const std::vector<int>& devices) const;
  link_cost link(const std::vector<int>& from, const std::vector<int>& to) const;
  cost_terms stage(const stage_load& load, int replicas, const stage_options& how, const ring_cost& ring) const;
  cost_terms link(const link_cost& link, double bytes) const;

  /// A stage on replicas of a type, whose load() it is: its options decided (the fastest that fit; of equals the first
  /// of options()), terms filled in; false where none fits.
  bool decide(const stage_load& load, int type, int replicas, std::int64_t in_flight, const ring_cost& ring,
              stage_options& how, cost_terms& terms) const;

  /// Fills in K, lag, recomputation and seconds of a candidate whose states and devices are given. False, and seconds
  /// infinite, where it does not fit or would be refused.
  bool complete(candidate& c) const;
  /// Of its fullest device.
  double excess_bytes(const candidate& c) const;

private:
  /// Memory as fixed + K x each.
  struct memory_line {
    double fixed = 0;
    double each = 0;
  };
  /// How many directions of a link add up.
  int turns(const link_level& level) const;
  double messages_beside(const stage_load& load, int replicas, const ring_cost& ring) const;
  memory_line memory_of(const stage_load& load, const stage_options& how) const;
  int level_between(int a, int b) const;

  const layer_graph& graph_;
  const cluster& cluster_;
  const search_request& request_;
  std::vector<load_table> loads_;
  std::vector<int> level_sizes_;   // devices in one component
  std::vector<cluster> one_level_; // each with all other levels free of cost
  bool holds_copies_ = false;
  bool hands_on_ = false;
  std::vector<stage_options> options_;
};

} // namespace penstock::planner
