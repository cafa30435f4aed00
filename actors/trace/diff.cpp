// Takes each trace's own figures and puts them side by side.
#include "actors/trace/diff.hpp"

#include "actors/trace/summary.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock::actors {

namespace {

bool has_layers(const trace_header& a, const trace_header& b) {
  return !stage_layers(a).empty() && !stage_layers(b).empty();
}

void check_comparable(const trace_header& a, const trace_header& b) {
  const auto refuse = [](const std::string& what, const std::string& first, const std::string& second) {
    throw error("the traces cannot be compared: " + what + " " + first + " in the first and " + second +
                " in the second");
  };
  if (a.model != b.model) refuse("the model is", a.model, b.model);
  if (!has_layers(a, b)) return;
  const auto range = [](const trace_header& h) {
    return h.plan.stages.front().first_layer + " .. " + h.plan.stages.back().last_layer;
  };
  if (range(a) != range(b)) refuse("the layers of " + a.model + " are", range(a), range(b));
}

bool is_same_partition(const trace_header& a, const trace_header& b) {
  if (a.plan.stages.size() != b.plan.stages.size()) return false;
  return !has_layers(a, b) || stage_layers(a) == stage_layers(b);
}

std::string replica_counts(const trace_header& h) {
  std::string text;
  for (const auto& stage : h.plan.stages)
    text += (text.empty() ? "" : ",") + std::to_string(stage.replicas);
  return text;
}

std::string credits_text(const trace_header& h) {
  std::string text;
  for (const auto& stage : h.plan.stages)
    text += (text.empty() ? "" : ",") + std::to_string(stage.in_flight);
  return text;
}

std::string partition_text(const trace_header& h) {
  std::string text;
  for (const auto& layers : stage_layers(h))
    text += (text.empty() ? "" : " | ") + layers;
  return text;
}

std::vector<std::string> differences_of(const trace_header& a, const trace_header& b) {
  std::vector<std::string> lines;
  const auto note = [&](const std::string& what, const std::string& first, const std::string& second) {
    if (first != second) lines.push_back(what + ": " + first + " in A, " + second + " in B");
  };
  note("schedule", a.plan.schedule, b.plan.schedule);
  note("stages", std::to_string(a.plan.stages.size()), std::to_string(b.plan.stages.size()));
  if (!is_same_partition(a, b) && has_layers(a, b)) note("layers", partition_text(a), partition_text(b));
  note("replicas", replica_counts(a), replica_counts(b));
  note("micro-batches per minibatch", std::to_string(a.plan.microbatches), std::to_string(b.plan.microbatches));
  note("forwards in flight", credits_text(a), credits_text(b));
  note("window", std::to_string(a.plan.window), std::to_string(b.plan.window));
  return lines;
}

double waiting(const stage_summary& s) {
  return std::accumulate(s.waits.begin(), s.waits.end(), s.all_reduce);
}

/// Of a whole trace.
struct totals {
  double busy = 0, waiting = 0, bubble = 0, staleness = 0, bytes = 0;
};

totals totals_of(const trace_file& file, const trace_summary& s) {
  totals t;
  double replicas = 0, micro_batches = 0;
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const double here = file.header.plan.stages[i].replicas;
    replicas += here;
    t.busy += here * s.stages[i].busy();
    t.waiting += here * waiting(s.stages[i]);
    t.bubble += here * s.stages[i].bubble();
    for (const auto& [updates, count] : s.stages[i].staleness) {
      t.staleness += static_cast<double>(updates) * static_cast<double>(count);
      micro_batches += static_cast<double>(count);
    }
  }
  t.busy /= replicas;
  t.waiting /= replicas;
  t.bubble /= replicas;
  if (micro_batches > 0) t.staleness /= micro_batches;
  for (const auto& [ends, edge] : s.edges)
    if (ends.first >= 0 && ends.second >= 0) t.bytes += static_cast<double>(edge.bytes);
  if (s.step.minibatches > 0) t.bytes /= static_cast<double>(s.step.minibatches);
  return t;
}

} // namespace

trace_difference compare_traces(const trace_file& a, const trace_file& b) {
  check_comparable(a.header, b.header);
  const auto first = summarize(a), second = summarize(b);
  const auto all_a = totals_of(a, first), all_b = totals_of(b, second);
  trace_difference d;
  d.differences = differences_of(a.header, b.header);
  d.step_seconds = {first.step.mean, second.step.mean};
  d.step_median_seconds = {first.step.median, second.step.median};
  d.busy = {all_a.busy, all_b.busy};
  d.waiting = {all_a.waiting, all_b.waiting};
  d.bubble = {all_a.bubble, all_b.bubble};
  d.staleness = {all_a.staleness, all_b.staleness};
  d.bytes = {all_a.bytes, all_b.bytes};
  if (!is_same_partition(a.header, b.header)) return d;
  d.is_per_minibatch = a.header.plan.microbatches != b.header.plan.microbatches;
  const double times_a = d.is_per_minibatch ? a.header.plan.microbatches : 1;
  const double times_b = d.is_per_minibatch ? b.header.plan.microbatches : 1;
  for (std::size_t i = 0; i < first.stages.size(); ++i) {
    const auto &x = first.stages[i], &y = second.stages[i];
    d.stages.push_back({.forward_seconds = {x.forward_time.median * times_a, y.forward_time.median * times_b},
                        .backward_seconds = {x.backward_time.median * times_a, y.backward_time.median * times_b},
                        .update_seconds = {x.update_time.median, y.update_time.median},
                        .busy = {x.busy(), y.busy()},
                        .waiting = {waiting(x), waiting(y)}});
  }
  return d;
}

} // namespace penstock::actors
