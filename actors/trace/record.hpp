// What a trace is made of: spans and waits of a stage replica, in one plain record.
#pragma once

#include "planner/plan/execution_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::actors {

enum class span_kind : std::uint8_t {
  forward,
  backward,
  update,
  all_reduce,
  send,
  receive,
  evaluate,
  load,
  wait,
  backward_input, // the parts of a backward that is split
  backward_weight
};

/// Why a stage replica had nothing to run.
enum class wait_reason : std::uint8_t { none, no_input, no_credit, version_not_ready, all_reduce };

inline constexpr std::size_t span_kinds = 11;
inline constexpr std::size_t wait_reasons = 5;

/// "forward", "all-reduce", ...; "no input", "version not ready", ...
std::string_view name_of(span_kind kind);
std::string_view name_of(wait_reason reason);

/// One span. Times are nanoseconds of std::chrono::steady_clock. -1 where a field does not apply.
struct trace_record {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t minibatch = -1;    ///< global id; of an update: the first of its group
  std::int64_t version_read = -1; ///< absolute: updates this stage has applied
  std::int64_t version_written = -1;
  std::int64_t bytes = -1;
  std::int32_t microbatch = -1;
  std::int16_t stage = -1; ///< -1: the source; -2: the metrics actor
  std::int16_t replica = 0;
  std::int16_t peer = -1;          ///< the other stage of a send or receive
  std::int16_t mailbox_depth = -1; ///< messages held by the replica when the span began
  std::int32_t stretch = -1;       ///< drains so far; of an evaluation: counted down from -1, one each
  span_kind kind = span_kind::forward;
  wait_reason reason = wait_reason::none;
  std::int16_t rank = -1; ///< whose record it is, in a merged trace; elsewhere trace_header::rank says it for all
  friend bool operator==(const trace_record&, const trace_record&) = default;
};

/// A stage's forward, backward (or a part of one) or update.
bool is_training(const trace_record& r);
/// A backward, or the part of one that makes the input gradients.
bool makes_input_gradient(const trace_record& r);
/// A backward, or the part of one that makes the weight gradients.
bool makes_weight_gradient(const trace_record& r);
/// A schedule's action and its span; of spans that are no action, an update.
span_kind span_of(planner::action_kind kind);
planner::action_kind action_of(span_kind kind);

/// A plan that took over from the one before it, at a drain.
struct trace_plan_epoch {
  std::int64_t first_stretch = 0;    ///< trace_record::stretch of the first stretch under it
  std::int64_t first_minibatch = 0;  ///< global id of its first
  std::int64_t first_evaluation = 0; ///< trace_record::stretch of the first evaluation under it; 0: not told
  planner::execution_plan plan{.schedule = "", .microbatches = 1}; ///< settled, as trace_header::plan
  friend bool operator==(const trace_plan_epoch&, const trace_plan_epoch&) = default;
};

/// What the file says of the run besides its spans.
struct trace_header {
  std::string model;
  planner::execution_plan plan{.schedule = "",
                               .microbatches = 1}; ///< the first; settled; layers, ranks, threads may be missing
  /// The plans after it, in the order of their drains. Functions that speak of a header's stages mean `plan` alone;
  /// trace/plan_epochs.hpp gives each plan epoch a header of its own.
  std::vector<trace_plan_epoch> changes;
  bool stashes_weights = true;
  bool vertical_sync = false;
  std::int64_t first_minibatch = -1; ///< global id of the run's first, after a resume; -1: the least in the trace
  std::int64_t minibatches = 0;      ///< of the run so far when the file was closed; -1 until then
  std::int64_t dropped = 0;
  bool complete = false; ///< closed in order
  std::string run; ///< names the job among others of the same plan; files of two jobs are not merged; may be empty
  int rank = -1;   ///< whose file this is; -1: a run of one process, or all ranks' files merged
  std::vector<std::string> hosts;     ///< by rank; ranks of one host share its clock; empty: one process
  std::int64_t clock_offset_ns = 0;   ///< added to this file's times gives rank 0's clock, as measured
  std::int64_t clock_conflict_ns = 0; ///< of a merged trace: no clocks make its messages disagree by less
  std::string missing; ///< of a merged trace: what its files do not tell, in words as of trace_file::missing
};

/// The stage's layers ("conv1 .. fc1") as the header names them, "-" where it does not.
std::string layers_of(const trace_header& header, std::size_t stage);
/// Of all stages; empty where the header does not name them.
std::vector<std::string> stage_layers(const trace_header& header);
/// From text of that form.
void set_layers(planner::planned_stage& stage, const std::string& text);

/// The rank that runs the stage replica; -1 in a run of one process and for the source and the metrics.
int rank_of(const trace_header& header, int stage, int replica);

/// Where the stage runs: a worker hosts all stages of a position.
int position_of(const trace_header& header, int stage);

/// "worker 1 replica 0"; as actor_name where each worker hosts one stage.
std::string worker_name(const trace_header& header, int stage, int replica);

/// It says which rank runs what: the run is one of several processes.
bool names_ranks(const trace_header& header);

/// Ranks of the run, whichever plan they run under; 0: one process.
int rank_count(const trace_header& header);

/// Of several ranks, in one file.
bool is_merged(const trace_header& header);

/// "stage 1 replica 0", "stage 1" where a stage has one replica, "the source", "the metrics".
std::string actor_name(const trace_header& header, int stage, int replica);

} // namespace penstock::actors
