// The words for kinds of span and reasons to wait.
#include "actors/trace/record.hpp"

#include <algorithm>
#include <array>

namespace penstock::actors {

std::string_view name_of(span_kind kind) {
  static constexpr std::array<std::string_view, span_kinds> names{
      "forward",  "backward", "update", "all-reduce",     "send",           "receive",
      "evaluate", "load",     "wait",   "backward_input", "backward_weight"};
  const auto i = static_cast<std::size_t>(kind);
  return i < names.size() ? names[i] : "unknown";
}

std::string_view name_of(wait_reason reason) {
  static constexpr std::array<std::string_view, wait_reasons> names{"none", "no input", "no credit",
                                                                    "version not ready", "all-reduce"};
  const auto i = static_cast<std::size_t>(reason);
  return i < names.size() ? names[i] : "unknown";
}

bool is_training(const trace_record& r) {
  return r.stage >= 0 && (r.kind == span_kind::forward || r.kind == span_kind::update || makes_input_gradient(r) ||
                          makes_weight_gradient(r));
}

bool makes_input_gradient(const trace_record& r) {
  return r.kind == span_kind::backward || r.kind == span_kind::backward_input;
}

bool makes_weight_gradient(const trace_record& r) {
  return r.kind == span_kind::backward || r.kind == span_kind::backward_weight;
}

span_kind span_of(planner::action_kind kind) {
  switch (kind) {
  case planner::action_kind::forward:
    return span_kind::forward;
  case planner::action_kind::backward:
    return span_kind::backward;
  case planner::action_kind::backward_input:
    return span_kind::backward_input;
  case planner::action_kind::backward_weight:
    return span_kind::backward_weight;
  case planner::action_kind::update:
    break;
  }
  return span_kind::update;
}

planner::action_kind action_of(span_kind kind) {
  using planner::action_kind;
  for (const auto a :
       {action_kind::forward, action_kind::backward, action_kind::backward_input, action_kind::backward_weight})
    if (span_of(a) == kind) return a;
  return action_kind::update;
}

std::string layers_of(const trace_header& header, std::size_t stage) {
  const auto& stages = header.plan.stages;
  return stage < stages.size() && !stages[stage].first_layer.empty() ? layers_text(stages[stage]) : std::string("-");
}

std::vector<std::string> stage_layers(const trace_header& header) {
  std::vector<std::string> all;
  for (const auto& stage : header.plan.stages)
    all.push_back(layers_text(stage));
  const bool names_any = std::any_of(all.begin(), all.end(), [](const auto& text) { return !text.empty(); });
  return names_any ? all : std::vector<std::string>();
}

void set_layers(planner::planned_stage& stage, const std::string& text) {
  const std::string between = " .. ";
  const auto at = text.find(between);
  stage.first_layer = text.substr(0, at);
  stage.last_layer = at == std::string::npos ? text : text.substr(at + between.size());
}

int position_of(const trace_header& header, int stage) {
  const auto chunks = std::max(1, header.plan.chunks);
  return stage < 0 ? stage : stage % std::max(1, static_cast<int>(header.plan.stages.size()) / chunks);
}

std::string worker_name(const trace_header& header, int stage, int replica) {
  if (header.plan.chunks == 1) return actor_name(header, stage, replica);
  auto name = "worker " + std::to_string(position_of(header, stage));
  if (header.plan.stages[static_cast<std::size_t>(stage)].replicas > 1) name += " replica " + std::to_string(replica);
  return name;
}

bool names_ranks(const trace_header& header) {
  const auto& stages = header.plan.stages;
  return std::any_of(stages.begin(), stages.end(), [](const auto& stage) { return !stage.ranks.empty(); });
}

int rank_of(const trace_header& header, int stage, int replica) {
  if (stage < 0 || static_cast<std::size_t>(stage) >= header.plan.stages.size()) return -1;
  const auto& ranks = header.plan.stages[static_cast<std::size_t>(stage)].ranks;
  return replica >= 0 && static_cast<std::size_t>(replica) < ranks.size() ? ranks[static_cast<std::size_t>(replica)]
                                                                          : -1;
}

int rank_count(const trace_header& header) {
  if (!names_ranks(header)) return 0;
  auto count = static_cast<int>(header.hosts.size());
  const auto add = [&](const planner::execution_plan& plan) {
    for (const auto& stage : plan.stages)
      for (const int rank : stage.ranks)
        count = std::max(count, rank + 1);
  };
  add(header.plan);
  for (const auto& change : header.changes)
    add(change.plan);
  return count;
}

bool is_merged(const trace_header& header) {
  return header.rank < 0 && names_ranks(header);
}

std::string actor_name(const trace_header& header, int stage, int replica) {
  if (stage == -1) return "the source";
  if (stage == -2) return "the metrics";
  std::string name = "stage " + std::to_string(stage);
  const auto at = static_cast<std::size_t>(stage);
  if (at < header.plan.stages.size() && header.plan.stages[at].replicas > 1)
    name += " replica " + std::to_string(replica);
  return name;
}

} // namespace penstock::actors
