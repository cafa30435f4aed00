// Wishes to changes.
#include "actors/run/plan_agenda.hpp"

#include "actors/policy/settle_plan.hpp"
#include "kernels/check.hpp"
#include "planner/plan/plan.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace penstock::actors {

namespace {

using nlohmann::json;

std::string text_of(const planner::execution_plan& p) {
  planner::plan file;
  static_cast<planner::execution_plan&>(file) = p;
  return planner::to_json(file);
}

// A wish cannot reach the minibatches that are behind it, nor those that are not there.
std::string refusal_of(std::int64_t step, std::int64_t done, std::int64_t total, const std::vector<plan_change>& all) {
  const auto at = [](std::int64_t s) { return "step " + std::to_string(s); };
  if (step < done) return at(step) + " has passed: " + std::to_string(done) + " are done";
  if (step >= total) return at(step) + " is not before the run's end, which comes after " + at(total);
  const auto same = [step](const plan_change& c) { return c.step == step; };
  if (std::any_of(all.begin(), all.end(), same)) return "the plan changes after " + at(step) + " already";
  return "";
}

} // namespace

plan_agenda::~plan_agenda() {
  for (auto& [step, wish] : wished_)
    wish.refuse("the run ended before step " + std::to_string(step));
}

void plan_agenda::forget_until(std::int64_t step) {
  std::erase_if(changes_, [step](const plan_change& c) { return c.step <= step; });
}

void plan_agenda::take_wishes(plan_wishes& wishes, std::int64_t done, std::int64_t total, const model& net,
                              const job* ranks) {
  std::vector<plan_change> fresh;
  const bool is_first = ranks == nullptr || ranks->rank() == 0;
  if (is_first)
    for (auto& wish : wishes.take()) {
      auto step = wish.step().value_or(done);
      move_up(step);
      auto all = changes_;
      all.insert(all.end(), fresh.begin(), fresh.end());
      if (const auto refusal = refusal_of(step, done, total, all); !refusal.empty()) {
        wish.refuse(refusal);
        continue;
      }
      fresh.push_back({step, wish.plan()});
      wished_.emplace(step, std::move(wish));
    }
  if (ranks != nullptr) {
    json told = json::array();
    for (const auto& c : fresh)
      told.push_back({c.step, text_of(*c.plan)});
    const auto name = "changes of plan " + std::to_string(rounds_++);
    const auto text = ranks->control.broadcast(name, is_first ? told.dump() : "", ranks->patience);
    if (!is_first)
      for (const auto& one : json::parse(text))
        fresh.push_back({one.at(0), settle_plan(planner::plan_from_json(one.at(1).get<std::string>(), "rank 0's plan"),
                                                net, {ranks->size(), ranks->rank()})});
  }
  changes_.insert(changes_.end(), fresh.begin(), fresh.end());
  std::sort(changes_.begin(), changes_.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
}

std::int64_t plan_agenda::next_drain(std::int64_t otherwise) const {
  return changes_.empty() ? otherwise : std::min(otherwise, changes_.front().step);
}

plan_change plan_agenda::take() {
  check(!changes_.empty(), "took a change of plan that there is not");
  auto first = std::move(changes_.front());
  changes_.erase(changes_.begin());
  taken_ = first.step;
  return first;
}

void plan_agenda::answer(const std::string& refusal) {
  auto wish = wished_.extract(taken_);
  if (!wish) return;
  if (refusal.empty())
    wish.mapped().took_place();
  else
    wish.mapped().refuse(refusal);
}

} // namespace penstock::actors
