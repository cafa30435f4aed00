// The summary as JSON for programs.
#include "actors/trace/plan_epochs.hpp"
#include "tools/trace/summary.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace penstock::actors {

namespace {

nlohmann::json json_of(const link_summary& link) {
  return {{"from", link.from_stage},
          {"to", link.to_stage},
          {"from_rank", link.from_rank},
          {"to_rank", link.to_rank},
          {"messages", link.messages},
          {"bytes", link.bytes},
          {"median_seconds", link.median_seconds},
          {"max_seconds", link.max_seconds},
          {"bytes_per_second", link.bytes_per_second}};
}

nlohmann::json json_of(const action_time& time) {
  return {{"median", time.median}, {"mean", time.mean}};
}

nlohmann::json json_of(const worker_summary& worker, const trace_header& header) {
  return {{"name", name_of(worker, header)},
          {"rank", worker.rank},
          {"stage", worker.stage},
          {"replica", worker.replica},
          {"busy", worker.busy},
          {"against_siblings", worker.against_siblings},
          {"straggler", worker.is_straggler},
          {"waited_for_seconds", worker.waited_for_seconds}};
}

nlohmann::json stages_of(const trace_summary& s, const trace_header& header) {
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
                      {"layers", layers_of(header, i)},
                      {"replicas", header.plan.stages[i].replicas},
                      {"busy", stage.busy()},
                      {"forward", stage.forward},
                      {"backward", stage.backward},
                      {"update", stage.update},
                      {"evaluate", stage.evaluate},
                      {"all_reduce", stage.all_reduce},
                      {"all_reduce_seconds", stage.all_reduce_seconds},
                      {"all_reduce_hidden", stage.all_reduce_hidden},
                      {"waits", waits},
                      {"other", stage.other()},
                      {"bubble", stage.bubble()},
                      {"ideal_bubble", stage.ideal_bubble ? nlohmann::json(*stage.ideal_bubble) : nlohmann::json()},
                      {"forward_seconds", json_of(stage.forward_time)},
                      {"backward_seconds", json_of(stage.backward_time)},
                      {"update_seconds", json_of(stage.update_time)},
                      {"weight_seconds", json_of(stage.weight_time)},
                      {"staleness", staleness},
                      {"mailbox", {{"mean", stage.depth_mean}, {"p99", stage.depth_p99}, {"max", stage.depth_max}}}});
  }
  return stages;
}

/// What is told of one plan: its stages, the edges between them, the workers that run them.
void add_plan(nlohmann::json& json, const trace_summary& s, const trace_header& header) {
  nlohmann::json edges = nlohmann::json::array();
  for (const auto& [ends, edge] : s.edges)
    edges.push_back({{"from", ends.first}, {"to", ends.second}, {"messages", edge.messages}, {"bytes", edge.bytes}});
  nlohmann::json links = nlohmann::json::array();
  for (const auto& link : s.links)
    links.push_back(json_of(link));
  nlohmann::json workers = nlohmann::json::array();
  for (const auto& worker : s.workers)
    workers.push_back(json_of(worker, header));
  nlohmann::json path = nlohmann::json::array();
  for (const auto& part : s.critical_path)
    path.push_back({{"part", name_of(part)}, {"seconds", part.seconds}, {"share", part.share}});
  const auto* slow_link = slowest_link(s.links);
  const auto* slow_worker = slowest_worker(s.workers);
  json.update({{"schedule", header.plan.schedule},
               {"microbatches", header.plan.microbatches},
               {"stages", stages_of(s, header)},
               {"edges", edges},
               {"links", links},
               {"workers", workers},
               {"slowest_link", slow_link != nullptr ? json_of(*slow_link) : nlohmann::json()},
               {"slowest_worker", slow_worker != nullptr ? json_of(*slow_worker, header) : nlohmann::json()},
               {"critical_path", path}});
}

nlohmann::json times_of(const trace_summary& s) {
  const nlohmann::json source = {{"admitted", s.source.admitted},
                                 {"waited_for_credit_seconds", s.source.waited_for_credit_seconds},
                                 {"waited_for_data_seconds", s.source.waited_for_data_seconds}};
  return {{"run_seconds", s.run_seconds},
          {"steady", s.is_steady},
          {"steady_seconds", s.steady_seconds},
          {"sections", s.sections},
          {"step_seconds", {{"mean", s.step.mean}, {"median", s.step.median}, {"steps", s.step.steps}}},
          {"minibatches_per_second", s.step.minibatches_per_second()},
          {"source", source}};
}

} // namespace

std::string to_json(const trace_summary& s, const trace_file& file) {
  auto json = times_of(s);
  json.update({{"model", file.header.model},
               {"minibatches", file.header.minibatches},
               {"complete", file.complete()},
               {"dropped", file.header.dropped},
               {"ranks", rank_count(file.header)},
               {"clock_conflict_seconds", static_cast<double>(file.header.clock_conflict_ns) * 1e-9}});
  if (file.header.changes.empty()) {
    add_plan(json, s, file.header);
  } else {
    const epoch_headers headers(file.header);
    auto& epochs = json["plan_epochs"] = nlohmann::json::array();
    for (const auto& epoch : s.epochs) {
      const auto header = headers.at(epoch.number);
      auto& to = epochs.emplace_back(times_of(epoch.own));
      const auto first = std::max<std::int64_t>(0, header.first_minibatch);
      to.update(
          {{"plan_epoch", epoch.number},
           {"first_minibatch", first},
           {"minibatches",
            header.minibatches < 0 ? nlohmann::json() : nlohmann::json(std::max(first, header.minibatches) - first)}});
      add_plan(to, epoch.own, header);
    }
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace penstock::actors
