// What a trace says of a run in numbers: how busy each stage was, why it waited, how stale its gradients were.
#pragma once

#include "actors/trace/reader.hpp"
#include "actors/trace/record.hpp"
#include "tools/trace/critical_path.hpp"
#include "tools/trace/intervals.hpp"
#include "tools/trace/links.hpp"
#include "tools/trace/shares.hpp"
#include "tools/trace/source_summary.hpp"
#include "tools/trace/steps.hpp"
#include "tools/trace/stragglers.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace penstock::actors {

/// Seconds of one action: of those within the sections, or of all where none is.
struct action_time {
  double median = 0;
  double mean = 0;
};

struct stage_summary : stage_shares {

  std::optional<double> ideal_bubble; ///< of the simulated schedule with the times that follow
  action_time forward_time;           ///< of one micro-batch
  action_time backward_time;          ///< both its parts, where it is split
  action_time weight_time;            ///< its weights' part, where it is split; else 0
  action_time update_time;
  std::map<std::int64_t, std::int64_t> staleness; ///< updates missed -> micro-batches, over the whole run
  double depth_mean = 0;                          ///< messages a replica held when a span began, over the whole run
  int depth_p99 = 0;
  int depth_max = 0;
  double all_reduce_seconds = 0; ///< over the whole run, sum of its replicas
  double all_reduce_hidden = 0;  ///< share of it that lay behind a backward of the same replica
};

struct edge_summary {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
};

struct plan_epoch_summary;

struct trace_summary {
  double run_seconds = 0;    ///< from the first training span's begin to the last one's end
  double steady_seconds = 0; ///< of the sections the shares are of
  int sections = 0;
  /// False when no drain-to-drain stretch is long enough; the shares are then of whole stretchs.
  bool is_steady = false;
  step_time step;
  source_summary source;
  std::vector<stage_summary> stages;
  std::map<std::pair<int, int>, edge_summary> edges; ///< (from, to), from the sends; -1 the source, -2 the metrics
  std::vector<link_summary> links;                   ///< of messages whose both ends are recorded, over the whole run
  std::vector<worker_summary> workers;
  std::vector<path_share> critical_path; ///< of the sections
  /// Where the plan changed: every plan epoch that trained anything. Stages, edges, links, workers and the critical
  /// path are then told here alone: a stage of one plan is no stage of another.
  std::vector<plan_epoch_summary> epochs;
};

/// One plan epoch as a run of its own.
struct plan_epoch_summary {
  std::size_t number = 0;
  trace_summary own;
};

/// Steady state, one section for each stretch between two drains: from the moment when every replica of every stage has
/// ended its first backward, to the moment when a replica of stage 0 begins its last forward. Segments without such a
/// time give none. Of one plan epoch: `header` is its own (trace/plan_epochs.hpp).
std::vector<time_section> steady_sections(const trace_header& header, const std::vector<trace_record>& records);

trace_summary summarize(const trace_file& file);

/// "schedule gpipe, 2 stages, 4 micro-batches a minibatch".
std::string plan_text(const planner::execution_plan& plan);
/// "lenet, schedule gpipe, 2 stages, 4 micro-batches a minibatch, 60 minibatches"; "lenet, 3 plans one after another,
/// 60 minibatches".
std::string run_text(const trace_header& header);

std::string to_text(const trace_summary& summary, const trace_file& file);
/// One JSON object, indented.
std::string to_json(const trace_summary& summary, const trace_file& file);

} // namespace penstock::actors
