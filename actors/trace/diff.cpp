// Takes each trace's own figures and puts them side by side.
#include "actors/trace/diff.hpp"

#include "actors/trace/header_schedule.hpp"
#include "actors/trace/statistics.hpp"
#include "actors/trace/summary.hpp"
#include "actors/trace/table.hpp"
#include "kernels/check.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace penstock::actors {

namespace {

std::string counts(const std::vector<int>& replicas) {
  std::string text;
  for (const int r : replicas)
    text += (text.empty() ? "" : ",") + std::to_string(r);
  return text;
}

void check_comparable(const trace_header& a, const trace_header& b) {
  const auto refuse = [](const std::string& what, const std::string& first, const std::string& second) {
    throw error("the traces cannot be compared: " + what + " is " + first + " in the first and " + second +
                " in the second");
  };
  if (a.schedule != b.schedule) refuse("the schedule", a.schedule, b.schedule);
  if (a.replicas.size() != b.replicas.size())
    refuse("the number of stages", std::to_string(a.replicas.size()), std::to_string(b.replicas.size()));
  if (a.replicas != b.replicas) refuse("the stages' replicas", counts(a.replicas), counts(b.replicas));
  if (a.microbatches != b.microbatches)
    refuse("the number of micro-batches", std::to_string(a.microbatches), std::to_string(b.microbatches));
}

double median_seconds(std::vector<std::int64_t> lengths_ns) {
  return median(std::move(lengths_ns)) * 1e-9;
}

/// Seconds of a forward, a backward and an update of one stage.
using action_times = std::array<double, 3>;

std::vector<action_times> median_times(const trace_file& file) {
  struct lengths {
    std::vector<std::int64_t> steady, all;
  };
  const auto sections = steady_sections(file.header, file.records);
  std::vector<std::array<lengths, 3>> seen(file.header.replicas.size());
  for (const auto& r : file.records) {
    if (r.stage < 0 || r.kind > span_kind::update) continue;
    auto& kind = seen[static_cast<std::size_t>(r.stage)][static_cast<std::size_t>(r.kind)];
    kind.all.push_back(r.end_ns - r.begin_ns);
    const auto section = std::partition_point(sections.begin(), sections.end(),
                                              [&](const time_section& s) { return s.second < r.end_ns; });
    if (section != sections.end() && section->first <= r.begin_ns) kind.steady.push_back(r.end_ns - r.begin_ns);
  }
  std::vector<action_times> times(seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (std::size_t k = 0; k < times[i].size(); ++k)
      times[i][k] = median_seconds(std::move(seen[i][k].steady.empty() ? seen[i][k].all : seen[i][k].steady));
  return times;
}

/// Minibatches that a drain leaves in an emptying pipeline; none where each is flushed.
std::int64_t filling_of(const trace_header& h) {
  try {
    const auto s = planner::resolve_schedule(request_of(h));
    return s.synchronous ? 0 : (s.source_credit() + s.microbatches - 1) / s.microbatches;
  } catch (const std::invalid_argument& refused) {
    throw error(std::string("the header's schedule cannot be: ") + refused.what());
  }
}

/// Ends of the minibatches' last backwards on the first stage, segment by segment, in order.
std::map<int, std::vector<std::int64_t>> completions_of(const trace_file& file) {
  std::map<std::pair<int, std::int64_t>, std::int64_t> ends;
  for (const auto& r : file.records)
    if (r.stage == 0 && r.kind == span_kind::backward) {
      auto& end = ends[{r.segment, r.minibatch}];
      end = std::max(end, r.end_ns);
    }
  std::map<int, std::vector<std::int64_t>> segments;
  for (const auto& [key, end] : ends)
    segments[key.first].push_back(end);
  for (auto& [segment, all] : segments)
    std::sort(all.begin(), all.end());
  return segments;
}

double step_seconds(const trace_file& file, const trace_summary& summary) {
  const auto filling = filling_of(file.header);
  std::int64_t minibatches = 0, steps = 0, time = 0;
  for (const auto& [segment, ends] : completions_of(file)) {
    const auto count = static_cast<std::int64_t>(ends.size());
    minibatches += count;
    const auto last = count - 1 - filling;
    const auto first = filling > 0 ? (count - 1) / 2 : 0;
    if (last <= first) continue;
    steps += last - first;
    time += ends[static_cast<std::size_t>(last)] - ends[static_cast<std::size_t>(first)];
  }
  if (steps > 0) return static_cast<double>(time) * 1e-9 / static_cast<double>(steps);
  return minibatches > 0 ? summary.run_seconds / static_cast<double>(minibatches) : 0;
}

double waiting(const stage_summary& s) {
  return std::accumulate(s.waits.begin(), s.waits.end(), s.all_reduce);
}

std::string ratio(const compared& c) {
  return c.a > 0 ? format("%.3f", c.ratio()) : "-";
}

std::string describe(const trace_file& file) {
  const auto& h = file.header;
  std::string text = h.model;
  if (h.minibatches >= 0)
    text += ", " + std::to_string(h.minibatches - std::max<std::int64_t>(0, h.first_minibatch)) + " minibatches";
  if (!file.complete()) text += ", incomplete: " + file.missing;
  return text + "\n";
}

} // namespace

trace_difference compare_traces(const trace_file& a, const trace_file& b) {
  check_comparable(a.header, b.header);
  const auto first = summarize(a), second = summarize(b);
  const auto first_times = median_times(a), second_times = median_times(b);
  trace_difference d;
  d.step_seconds = {step_seconds(a, first), step_seconds(b, second)};
  for (std::size_t i = 0; i < first.stages.size(); ++i)
    d.stages.push_back({.forward_seconds = {first_times[i][0], second_times[i][0]},
                        .backward_seconds = {first_times[i][1], second_times[i][1]},
                        .update_seconds = {first_times[i][2], second_times[i][2]},
                        .busy = {first.stages[i].busy(), second.stages[i].busy()},
                        .waiting = {waiting(first.stages[i]), waiting(second.stages[i])}});
  return d;
}

std::string to_text(const trace_difference& d, const trace_file& a, const trace_file& b) {
  const auto& h = a.header;
  std::string text = "A: " + describe(a) + "B: " + describe(b);
  text += "schedule " + h.schedule;
  text += format(", micro-batches per minibatch: %d\n", h.microbatches);
  text += format("step: A %.3f ms, B %.3f ms, ", d.step_seconds.a * 1e3, d.step_seconds.b * 1e3);
  text += "B/A " + ratio(d.step_seconds) + "\n\n";
  std::vector<table_row> rows{{"stage", "forward ms A", "B", "B/A", "backward ms A", "B", "B/A", "update ms A", "B",
                               "B/A", "busy A", "B", "waiting A", "B"}};
  for (std::size_t i = 0; i < d.stages.size(); ++i) {
    const auto& s = d.stages[i];
    table_row cells{std::to_string(i)};
    for (const auto& time : {s.forward_seconds, s.backward_seconds, s.update_seconds}) {
      cells.push_back(format("%.3f", time.a * 1e3));
      cells.push_back(format("%.3f", time.b * 1e3));
      cells.push_back(ratio(time));
    }
    for (const auto& share : {s.busy, s.waiting}) {
      cells.push_back(percent(share.a));
      cells.push_back(percent(share.b));
    }
    rows.push_back(std::move(cells));
  }
  return text + table(rows, 1) + "(medians of one micro-batch or update)\n";
}

std::string to_json(const trace_difference& d, const trace_file& a, const trace_file& b) {
  const auto both = [](const compared& c) {
    return nlohmann::json{{"a", c.a}, {"b", c.b}, {"ratio", c.a > 0 ? nlohmann::json(c.ratio()) : nlohmann::json()}};
  };
  const auto trace = [](const trace_file& file) {
    return nlohmann::json{
        {"model", file.header.model}, {"minibatches", file.header.minibatches}, {"complete", file.complete()}};
  };
  nlohmann::json stages = nlohmann::json::array();
  for (std::size_t i = 0; i < d.stages.size(); ++i)
    stages.push_back({{"stage", i},
                      {"forward_seconds", both(d.stages[i].forward_seconds)},
                      {"backward_seconds", both(d.stages[i].backward_seconds)},
                      {"update_seconds", both(d.stages[i].update_seconds)},
                      {"busy", both(d.stages[i].busy)},
                      {"waiting", both(d.stages[i].waiting)}});
  const nlohmann::json json = {{"schedule", a.header.schedule},
                               {"microbatches", a.header.microbatches},
                               {"a", trace(a)},
                               {"b", trace(b)},
                               {"step_seconds", both(d.step_seconds)},
                               {"stages", stages}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace penstock::actors
