// A virtual machine that plays a schedule: workers that compute, links that carry, memory that fills.
#pragma once

#include "planner/simulate.hpp"

#include <cstdint>
#include <vector>

namespace penstock::planner {

/// What one stage costs on one of its replicas. Times and sizes per micro-batch: one number, or one for each of the M.
struct machine_stage {
  std::vector<int> devices; ///< one per replica; a device that two replicas share runs one action at a time. Stages of
                            ///< the same workers have the same
  std::vector<double> forward_seconds{1};
  std::vector<double> backward_seconds{2}; ///< recomputation included
  /// The part of backward_seconds that a split backward leaves for later; empty: half of them.
  std::vector<double> weight_seconds;
  double accumulate_seconds = 0;       ///< more, for a weight gradient that is added to others of the same update
  double update_seconds = 0;           ///< per update
  std::vector<double> output_bytes{0}; ///< to the next stage; as many come back as gradients
  double all_reduce_bytes = 0;         ///< per update, among the replicas; 0: nothing to do
  bool all_reduce_overlaps = true;     ///< runs beside the update's last backwards; else after them
  double activation_delay_s = 0;       ///< of every activation to the next stage, beside what the links take
  double gradient_delay_s = 0;         ///< of every gradient to the previous stage

  // memory of one replica, bytes
  double weight_bytes = 0; ///< of one version
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  double state_bytes = 0;            ///< whatever else stays
  double frozen_bytes = 0;           ///< weights that nothing changes, beside those of a version
  std::vector<double> kept_bytes{0}; ///< from a forward's begin to its backward's end
  /// From the end of a backward's input part to the end of its weights' part, in place of the kept bytes; empty: as
  /// many.
  std::vector<double> delayed_bytes;
  std::vector<double> workspace_bytes{0}; ///< while a forward runs, what it puts out included
  /// While a backward runs, at its worst moment; below 0 where kept bytes are gone, or gradients not yet there, by
  /// then. Empty: as workspace_bytes.
  std::vector<double> backward_workspace_bytes;
  std::vector<double> weight_workspace_bytes; ///< while the weights' part of one runs; empty: none
  std::vector<double> unkept_output_bytes;    ///< the part of output_bytes that kept_bytes lack; empty: all of it
};

/// One level of links between devices; as link_level of the cluster.
struct machine_link {
  int group = 1;
  double bytes_per_second = 0; ///< 0: no limit
  double latency_s = 0;
  bool shared = false;
  bool half_duplex = false;
  bool by_reference = false;
  bool point_to_point = false; ///< a wire of its own between any two devices, where not shared
};

struct machine {
  std::vector<machine_stage> stages;
  std::vector<machine_link> links; ///< innermost first; empty: messages take no time
  /// Both devices do nothing else while one sends to the other, and a receiver receives in the order of its list
  /// (BaPipe's SNO). The runtime never does.
  bool blocking_sends = false;
};

struct straggler {
  int device = 0;
  double factor = 1; ///< its times are multiplied by it
};

struct machine_options {
  double jitter = 0; ///< coefficient of variation of a log-normal factor (mean 1) on every action's time
  std::uint64_t seed = 1;
  std::vector<straggler> stragglers;
  bool keep_spans = true; ///< for a picture or a trace; off where only the figures count
};

enum class transfer_kind : std::uint8_t { activation, gradient, all_reduce };

struct simulated_transfer {
  transfer_kind what = transfer_kind::activation;
  int stage = 0; ///< the sender's
  int replica = 0;
  int to_stage = 0;
  int to_replica = 0;
  std::int64_t minibatch = 0; ///< of an all-reduce: its group
  std::int32_t microbatch = 0;
  double bytes = 0;
  double begin = 0;
  double end = 0;
};

struct simulated_memory { ///< bytes of the fullest replica of a stage
  double total = 0;       ///< the highest sum
  double weights = 0;     ///< each part at its own highest
  double gradients = 0;
  double optimizer_state = 0;
  double activations = 0;
  double workspace = 0;
  std::int64_t versions = 1; ///< weight versions alive at once
};

struct machine_run : simulation {
  std::vector<simulated_transfer> transfers; ///< in order of begin; with keep_spans
  std::vector<simulated_memory> memory;      ///< per stage
  std::vector<double> all_reduce_seconds;    ///< per stage, of one update as it ran
  double bytes_sent = 0;                     ///< between different devices, all-reduce included
  /// Seconds from one minibatch to the next in steady state: over the second half of the minibatches, less those that
  /// only empty the pipeline, measured where the first active stage is done with them, in whole rounds of the replicas
  /// (their least common multiple in micro-batches), and no less than the busiest device or channel works for one where
  /// all replicas get as many. The makespan over the minibatches where there are too few.
  double step_seconds = 0;
};

/// Plays the schedule (order, credits, window, versions, dealing) on the machine, in the runtime's order:
///
/// - A device runs one action at a time: of the updates that wait for it the oldest, else of its replicas' next actions
///   the one that was ready first. Times are multiplied by the device's straggler factor and the action's own jitter.
/// - A message takes the innermost level that joins the two devices. It holds its channels for bytes / bandwidth, from
///   the first time at which all of them are free for so long, and arrives a latency later; messages take their
///   channels in order of readiness, so one that waits for its receiver leaves its sender's to others. A level has
///   one channel out of and one into each device (or one from each to each other, where it is point to point); a shared
///   level one in each of its components towards higher device numbers and one towards lower. Where a level is half
///   duplex the two directions have one channel together.
/// - An update waits until every replica of the stage has reached it in its list (with an update lag: has ended the
///   last backward that adds to it), and for the all-reduce. Replicas go on meanwhile with what does not need the new
///   version.
/// - An all-reduce among m devices, whose members send slices to one another, holds the channel out of each and the one
///   into each for 2 (m - 1) / m x bytes / bandwidth, every channel by itself (between two devices both ends of a way
///   together; twice that where a level is half duplex; times the members in a component where it is shared), at the
///   slowest level the replicas span, and takes 2 (m - 1) latencies more. It goes in `all_reduce_buckets` equal
///   buckets, between which other messages find room, those of a stage's older updates first. Where it overlaps, the
///   buckets become ready evenly over the last backward of the update (the replicas' latest begin and end), so it ends
///   no earlier than that plus one bucket. Each replica then updates its own weights.
/// - Replicas joined by reference are workers of one process: their gradients are summed on the first one's device
///   ((m - 1) x bytes / bandwidth) once all have reached the update, and one update there serves them all.
///
/// - A frozen stage runs forwards alone, of its one version, and keeps nothing of them but outputs that are on their
///   way or wait for the stage behind it: no more in all than the source admits.
///
/// Memory is counted for every replica as a worker of its own would hold it: weight versions that a forward in flight
/// captured or a later one reads, and one more while an update writes it unless it may write in place; a gradient set
/// from an update's first weight gradient until the update ends; what a forward keeps until its backward ends, or its
/// input's part does, and then what the weights' part needs until that ends; an output or
/// input gradient from the begin of what makes it until the neighbour has used it (by reference, or without links) or
/// it has arrived there, where a copy lives until the neighbour has used it.
///
/// Throws std::invalid_argument for numbers that make no sense (one line), std::logic_error if the schedule cannot run
/// (the checker says why).
machine_run run_machine(const schedule& s, const machine& m, const machine_options& options = {});

inline constexpr int all_reduce_buckets = 16;

/// Enough minibatches for machine_run::step_seconds to be that of the steady state: the pipeline fills, runs some
/// rounds of the replicas, and empties, however long the one given is.
std::int64_t steady_minibatches(const schedule& s);

} // namespace penstock::planner
