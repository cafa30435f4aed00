// Stage reports, as JSON between ranks.
#include "actors/run/summarise.hpp"

#include "actors/policy/freezing.hpp"
#include "actors/policy/settle_plan.hpp"
#include "actors/ranks/job.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace penstock::actors {

namespace {

using nlohmann::json;

// Times are the first replica's, memory the largest replica's.
json report_of(const stage_unit& s, const stage_measures& m, bool is_owner) {
  std::int64_t peak_weights = 0;
  std::int64_t peak = 0;
  for (const int r : s.local) {
    const auto usage = s.replicas[static_cast<std::size_t>(r)].memory->memory().usage();
    peak_weights = std::max(peak_weights, usage.peak(memory_use::weights));
    peak = std::max(peak, usage.total_peak_bytes);
  }
  return {{"stage", s.index},
          {"owner", is_owner},
          {"updates", m.updates},
          {"weight_bytes", m.weight_bytes},
          {"peak_weights", peak_weights},
          {"peak", peak},
          {"forward", m.forward_seconds},
          {"backward", m.backward_seconds},
          {"update", m.update_seconds}};
}

void merge(const json& from, std::vector<stage_report>& stages) {
  auto& out = stages.at(from.at("stage").get<std::size_t>());
  out.peak_weight_bytes = std::max(out.peak_weight_bytes, from.at("peak_weights").get<std::int64_t>());
  out.peak_memory_bytes = std::max(out.peak_memory_bytes, from.at("peak").get<std::int64_t>());
  if (!from.at("owner").get<bool>()) return;
  out.updates = from.at("updates");
  out.weight_bytes = from.at("weight_bytes");
  out.forward_seconds = from.at("forward");
  out.backward_seconds = from.at("backward");
  out.update_seconds = from.at("update");
}

} // namespace

run_summary describe_plan(const resolved_run& plan, const model& net) {
  run_summary s;
  s.plan = plan.plan;
  s.instruction_set = plan.instruction_set;
  s.compute_library = plan.compute_library;
  s.parameters = net.parameter_count();
  s.freeze = describe_freeze(net, plan.plan->frozen_until);
  s.frozen_parameters = frozen_parameters(net, plan.plan->frozen_until);
  const auto first = first_layers_of(*plan.plan, net);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const int end = i + 1 < first.size() ? first[i + 1] : static_cast<int>(net.layers().size());
    stage_report stage;
    stage.weight_bytes = 4 * net.parameter_count(first[i], end);
    s.stages.push_back(std::move(stage));
  }
  return s;
}

void report_stages(const pipeline& p, const std::map<int, stage_measures>& here, const job* ranks,
                   std::vector<stage_report>& stages) {
  json reports = json::array();
  for (const auto& s : p.stages)
    if (s.is_local()) reports.push_back(report_of(s, here.at(s.index), p.where.owner(s.index) == p.rank));
  std::vector<std::string> all{reports.dump()};
  if (ranks != nullptr) all = ranks->control.all_gather("stage reports", all.front(), ranks->patience);
  for (const auto& text : all)
    for (const auto& report : json::parse(text))
      merge(report, stages);
}

} // namespace penstock::actors
