// Takes each trace's own figures and puts them side by side.
#include "tools/trace/diff.hpp"

#include "actors/trace/plan_epochs.hpp"
#include "kernels/check.hpp"
#include "tools/trace/summary.hpp"

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

/// Of runs under one plan each: the stages of several are not one another's.
bool is_same_partition(const trace_header& a, const trace_header& b) {
  if (!a.changes.empty() || !b.changes.empty()) return false;
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

std::string lags_text(const trace_header& h) {
  std::string text;
  for (const auto& stage : h.plan.stages)
    text += (text.empty() ? "" : ",") + std::to_string(stage.update_lag);
  return text;
}

std::string partition_text(const trace_header& h) {
  std::string text;
  for (const auto& layers : stage_layers(h))
    text += (text.empty() ? "" : " | ") + layers;
  return text;
}

/// "none", "at minibatch 40, 80".
std::string changes_text(const trace_header& h) {
  std::string text;
  for (const auto& change : h.changes)
    text += (text.empty() ? "at minibatch " : ", ") + std::to_string(change.first_minibatch);
  return text.empty() ? "none" : text;
}

/// Of two plans, by headers that have no other.
void note_plans(const trace_header& a, const trace_header& b, const std::string& which,
                std::vector<std::string>& lines) {
  const auto note = [&](const std::string& what, const std::string& first, const std::string& second) {
    if (first != second) lines.push_back(which + what + ": " + first + " in A, " + second + " in B");
  };
  note("schedule", a.plan.schedule, b.plan.schedule);
  note("stages", std::to_string(a.plan.stages.size()), std::to_string(b.plan.stages.size()));
  if (!is_same_partition(a, b) && has_layers(a, b)) note("layers", partition_text(a), partition_text(b));
  note("replicas", replica_counts(a), replica_counts(b));
  note("micro-batches per minibatch", std::to_string(a.plan.microbatches), std::to_string(b.plan.microbatches));
  note("forwards in flight", credits_text(a), credits_text(b));
  note("update lag", lags_text(a), lags_text(b));
  note("window", std::to_string(a.plan.window), std::to_string(b.plan.window));
}

std::vector<std::string> differences_of(const trace_header& a, const trace_header& b) {
  std::vector<std::string> lines;
  const auto note = [&](const std::string& what, const std::string& first, const std::string& second) {
    if (first != second) lines.push_back(what + ": " + first + " in A, " + second + " in B");
  };
  note("changes of plan", changes_text(a), changes_text(b));
  const auto most = std::max(epoch_count(a), epoch_count(b));
  const epoch_headers of_a(a), of_b(b);
  for (std::size_t epoch = 0; epoch < std::min(epoch_count(a), epoch_count(b)); ++epoch)
    note_plans(of_a.at(epoch), of_b.at(epoch), most == 1 ? "" : "plan epoch " + std::to_string(epoch) + ", ", lines);
  return lines;
}

double waiting(const stage_summary& s) {
  return std::accumulate(s.waits.begin(), s.waits.end(), s.all_reduce);
}

/// Of a whole trace.
struct totals {
  double busy = 0, waiting = 0, bubble = 0, staleness = 0, bytes = 0;
};

/// Shares are weighted by the time that they are of, where there are several plans.
class totals_sum {
public:
  void add(const planner::execution_plan& plan, const trace_summary& s) {
    double replicas = 0;
    totals here;
    for (std::size_t i = 0; i < s.stages.size(); ++i) {
      const double count = plan.stages[i].replicas;
      replicas += count;
      here.busy += count * s.stages[i].busy();
      here.waiting += count * waiting(s.stages[i]);
      here.bubble += count * s.stages[i].bubble();
      for (const auto& [updates, times] : s.stages[i].staleness) {
        sum_.staleness += static_cast<double>(updates) * static_cast<double>(times);
        micro_batches_ += static_cast<double>(times);
      }
    }
    const double weight = s.steady_seconds > 0 ? s.steady_seconds : least_weight;
    weights_ += weight;
    sum_.busy += weight * here.busy / replicas;
    sum_.waiting += weight * here.waiting / replicas;
    sum_.bubble += weight * here.bubble / replicas;
    for (const auto& [ends, edge] : s.edges)
      if (ends.first >= 0 && ends.second >= 0) sum_.bytes += static_cast<double>(edge.bytes);
  }

  totals take(std::int64_t minibatches) const {
    auto t = sum_;
    if (weights_ > 0)
      for (auto* share : {&t.busy, &t.waiting, &t.bubble})
        *share /= weights_;
    if (micro_batches_ > 0) t.staleness /= micro_batches_;
    if (minibatches > 0) t.bytes /= static_cast<double>(minibatches);
    return t;
  }

private:
  static constexpr double least_weight = 1e-9; // of a trace whose spans have no length
  totals sum_;
  double weights_ = 0, micro_batches_ = 0;
};

totals totals_of(const trace_file& file, const trace_summary& s) {
  totals_sum sum;
  if (file.header.changes.empty())
    sum.add(file.header.plan, s);
  else
    for (const auto& epoch : s.epochs)
      sum.add(plan_of(file.header, epoch.number), epoch.own);
  return sum.take(s.step.minibatches);
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
