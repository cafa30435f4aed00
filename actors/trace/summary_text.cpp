// The summary as a table for people and as JSON for programs.
#include "actors/trace/summary.hpp"
#include "actors/trace/table.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace penstock::actors {

namespace {

using row = table_row;

std::string layers_of(const trace_header& header, std::size_t stage) {
  return stage < header.stage_layers.size() ? header.stage_layers[stage] : std::string("-");
}

std::string share_table(const trace_summary& s, const trace_header& header) {
  std::vector<row> rows{{"stage", "layers", "replicas", "busy", "forward", "backward", "update", "evaluate"}};
  for (std::size_t w = 1; w < wait_reasons; ++w)
    rows[0].emplace_back(name_of(static_cast<wait_reason>(w)));
  for (const char* title : {"other", "bubble", "ideal"})
    rows[0].emplace_back(title);
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto& stage = s.stages[i];
    row cells{std::to_string(i),     layers_of(header, i),   std::to_string(header.replicas[i]),
              percent(stage.busy()), percent(stage.forward), percent(stage.backward),
              percent(stage.update), percent(stage.evaluate)};
    for (std::size_t w = 1; w < wait_reasons; ++w)
      // The replica waits for an all-reduce or runs it: either way it is what holds the stage up.
      cells.push_back(
          percent(stage.waits[w] + (static_cast<wait_reason>(w) == wait_reason::all_reduce ? stage.all_reduce : 0)));
    cells.push_back(percent(stage.other()));
    cells.push_back(percent(stage.bubble()));
    cells.push_back(stage.ideal_bubble ? percent(*stage.ideal_bubble) : "-");
    rows.push_back(std::move(cells));
  }
  return table(rows, 2);
}

std::string time_table(const trace_summary& s) {
  std::vector<row> rows{{"stage", "forward ms", "backward ms", "update ms", "mailbox mean", "p99", "max",
                         "staleness (updates: micro-batches)"}};
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto& stage = s.stages[i];
    std::string staleness;
    for (const auto& [updates, count] : stage.staleness)
      staleness += (staleness.empty() ? "" : ", ") +
                   format("%lld: %lld", static_cast<long long>(updates), static_cast<long long>(count));
    rows.push_back({std::to_string(i), format("%.3f", stage.forward_seconds * 1e3),
                    format("%.3f", stage.backward_seconds * 1e3), format("%.3f", stage.update_seconds * 1e3),
                    format("%.2f", stage.depth_mean), std::to_string(stage.depth_p99), std::to_string(stage.depth_max),
                    staleness.empty() ? "-" : staleness});
  }
  return table(rows, 1, last_column::left);
}

std::string place_name(int stage) {
  return stage == -1 ? "source" : stage == -2 ? "metrics" : "stage " + std::to_string(stage);
}

std::string edge_table(const trace_summary& s) {
  std::vector<row> rows{{"edge", "messages", "bytes", "bytes/message"}};
  for (const auto& [ends, edge] : s.edges)
    rows.push_back({place_name(ends.first) + " -> " + place_name(ends.second), std::to_string(edge.messages),
                    std::to_string(edge.bytes), std::to_string(edge.bytes / std::max<std::int64_t>(1, edge.messages))});
  return table(rows, 1);
}

} // namespace

std::string to_text(const trace_summary& s, const trace_file& file) {
  const auto& h = file.header;
  std::string text = h.model;
  text += ", schedule " + h.schedule;
  text += format(", %zu stages, micro-batches per minibatch: %d", h.replicas.size(), h.microbatches);
  if (h.minibatches >= 0)
    text += format(", %lld minibatches",
                   static_cast<long long>(h.minibatches - std::max<std::int64_t>(0, h.first_minibatch)));
  text += '\n';
  if (!file.complete()) text.append("the trace is incomplete: ").append(file.missing).append("\n");
  text += format("%.3f s of training; ", s.run_seconds);
  text += s.is_steady ? format("steady state is %.3f s in %d sections, ", s.steady_seconds, s.sections)
                      : format("no steady state, so of all %.3f s: ", s.steady_seconds);
  text += format("%.2f minibatches/s\n", s.minibatches_per_second);
  if (s.is_steady)
    text += "(of each segment between drains: after every replica's first backward, until stage 0 begins its last "
            "forward)\n";
  text.append("\n").append(share_table(s, h)).append("\n").append(time_table(s));
  if (!s.edges.empty()) text.append("\n").append(edge_table(s));
  return text;
}

std::string to_json(const trace_summary& s, const trace_file& file) {
  nlohmann::json stages = nlohmann::json::array();
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    const auto& stage = s.stages[i];
    nlohmann::json waits;
    for (std::size_t w = 1; w < wait_reasons; ++w)
      waits[std::string(name_of(static_cast<wait_reason>(w)))] = stage.waits[w];
    nlohmann::json staleness = nlohmann::json::object();
    for (const auto& [updates, count] : stage.staleness)
      staleness[std::to_string(updates)] = count;
    stages.push_back({{"stage", i},
                      {"layers", layers_of(file.header, i)},
                      {"replicas", file.header.replicas[i]},
                      {"busy", stage.busy()},
                      {"forward", stage.forward},
                      {"backward", stage.backward},
                      {"update", stage.update},
                      {"evaluate", stage.evaluate},
                      {"all_reduce", stage.all_reduce},
                      {"waits", waits},
                      {"other", stage.other()},
                      {"bubble", stage.bubble()},
                      {"ideal_bubble", stage.ideal_bubble ? nlohmann::json(*stage.ideal_bubble) : nlohmann::json()},
                      {"forward_seconds", stage.forward_seconds},
                      {"backward_seconds", stage.backward_seconds},
                      {"update_seconds", stage.update_seconds},
                      {"staleness", staleness},
                      {"mailbox", {{"mean", stage.depth_mean}, {"p99", stage.depth_p99}, {"max", stage.depth_max}}}});
  }
  nlohmann::json edges = nlohmann::json::array();
  for (const auto& [ends, edge] : s.edges)
    edges.push_back({{"from", ends.first}, {"to", ends.second}, {"messages", edge.messages}, {"bytes", edge.bytes}});
  const nlohmann::json json = {{"model", file.header.model},
                               {"schedule", file.header.schedule},
                               {"microbatches", file.header.microbatches},
                               {"minibatches", file.header.minibatches},
                               {"complete", file.complete()},
                               {"dropped", file.header.dropped},
                               {"run_seconds", s.run_seconds},
                               {"steady", s.is_steady},
                               {"steady_seconds", s.steady_seconds},
                               {"sections", s.sections},
                               {"minibatches_per_second", s.minibatches_per_second},
                               {"stages", stages},
                               {"edges", edges}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace penstock::actors
