// Staleness and minibatches an update follow from the schedule's rules.
#include "apps/runner/plan_words.hpp"

#include "kernels/text_table.hpp"
#include "planner/presets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace penstock::apps {

namespace {

// Most over the stages (DESIGN section 2's table).
std::int64_t staleness_of(const planner::preset& rules, const planner::schedule& s) {
  if (s.synchronous) return 0;
  if (rules.unit == planner::update_unit::minibatch_after_next) return 1;
  std::int64_t most = 0;
  for (const auto& stage : s.stages)
    most = std::max(most, stage.credit - 1 + stage.update_lag);
  return most;
}

// Stages by how many minibatches their updates are the mean of.
std::string groups_text(const planner::schedule& s) {
  std::map<int, std::string> stages;
  for (std::size_t i = 0; i < s.stages.size(); ++i)
    if (s.stages[i].replicas > 1) {
      auto& text = stages[s.stages[i].replicas];
      text += (text.empty() ? "" : ", ") + std::to_string(i);
    }
  std::string text;
  for (const auto& [count, which] : stages)
    text += fmt::format(", {} minibatches an update at stage {}", count, which);
  return text;
}

} // namespace

std::string update_text(const planner::execution_plan& p) {
  const auto shape = planner::schedule_of(p);
  const auto& rules = planner::find_preset(shape.name);
  const auto stale = staleness_of(rules, shape);
  auto text = stale == 0 ? "not stale" : "up to " + counted(stale, "update") + " stale";
  if (!shape.stashes_weights && stale > 0) text += " and backward on other weights than forward";
  if (rules.unit == planner::update_unit::replica_group) text += groups_text(shape);
  return text;
}

std::string plan_line(const planner::execution_plan& p) {
  const auto shape = planner::schedule_of(p);
  auto text = fmt::format("{}, {}", planner::describe_stages(p), p.schedule);
  if (shape.microbatches > 1) text += fmt::format(", {} micro-batches", shape.microbatches);
  text += ", " + counted(workers_of(p), "worker");
  if (p.threads > 0) text += " of " + counted(p.threads, "thread");
  return text + ", " + update_text(p);
}

} // namespace penstock::apps
