// Explores, takes the winner, and explains.
#include "planner/explore/explore.hpp"

#include "planner/explore/advice.hpp"
#include "planner/explore/choose.hpp"
#include "planner/explore/explorer.hpp"
#include "planner/explore/predict.hpp"
#include "planner/profile/frozen_costs.hpp"

#include <cmath>
#include <stdexcept>

namespace penstock::planner {

namespace {

/// Of those that only memory stops, the one that misses least.
const trial* least_missing(const std::vector<trial>& trials) {
  const trial* least = nullptr;
  for (const auto& t : trials)
    if (t.missing_bytes > 0 && (!least || t.missing_bytes < least->missing_bytes)) least = &t;
  return least;
}

[[noreturn]] void refuse(const profile& p, const cluster& c, const plan_request& request, const explorer& e,
                         const std::vector<trial>& trials) {
  if (const auto* best = least_missing(trials)) throw std::invalid_argument(advice(p, c, request, *best));
  // Memory is not the reason: the schedules' rules are, if anything could be tried at all.
  throw std::invalid_argument(trials.empty() ? why_none(e, request) : trials.front().refused);
}

/// Numbers of devices below `all` that are explored on their own, so that more devices never make a plan worse: every
/// one where there are few, else halves, of very many the first half only.
std::vector<int> fewer_devices(int all) {
  constexpr int few = 8, many = 64;
  if (all > many) return {all / 2};
  std::vector<int> counts;
  for (int count = all <= few ? all - 1 : all / 2; count >= 1; count = all <= few ? count - 1 : count / 2)
    counts.push_back(count);
  return counts;
}

const trial* fastest_of(const std::vector<trial>& trials) {
  const trial* fastest = nullptr;
  for (const auto& t : trials)
    if (t.runs() && (!fastest || t.step_seconds() < fastest->step_seconds())) fastest = &t;
  return fastest;
}

/// Unless cuts are given, or the fastest parts nothing, once more without any that part what the model keeps together.
std::vector<trial> try_all(const explorer& e, const profile& p, const cluster& c, const plan_request& request) {
  auto trials = e.run();
  const auto* fastest = fastest_of(trials);
  if (fastest && fastest->keeps_hints()) return trials;
  if (!p.kept_together.empty() && request.first_layers.empty())
    for (auto& t : explorer(p, c, request, model_hints::kept).run())
      trials.push_back(std::move(t));
  return trials;
}

/// `best`: seconds of the winner on all of them.
std::vector<trial> try_fewer_devices(const profile& p, const cluster& c, plan_request request, const explorer& all,
                                     double best) {
  constexpr double worth_it = 1.01; // above any tie
  std::vector<trial> trials;
  if (!request.replicas.empty()) return trials; // they say how many
  for (const auto count : fewer_devices(all.device_count())) {
    if (count < all.fixed().stages || all.least_seconds(count) > best * worth_it) break;
    request.devices = count;
    for (auto& t : try_all(explorer(p, c, request), p, c, request))
      trials.push_back(std::move(t));
  }
  return trials;
}

} // namespace

plan make_plan(const profile& p, const cluster& c, const plan_request& request) {
  return std::move(make_plans(p, c, request, 1).front());
}

std::vector<plan> make_plans(const profile& p, const cluster& c, const plan_request& request, std::size_t most) {
  if (!request.frozen_until.empty()) {
    check_profile(p);
    const auto frozen = frozen_costs(p, layers_before(p, request.frozen_until));
    auto of_frozen = request;
    of_frozen.frozen_until.clear();
    return make_plans(frozen, with_frozen_profiles(c, frozen_layers(frozen)), of_frozen, most);
  }
  const explorer e(p, c, request);
  auto trials = try_all(e, p, c, request);
  auto winner = winner_of(trials);
  const auto best = winner < 0 ? INFINITY : trials[static_cast<std::size_t>(winner)].step_seconds();
  for (auto& t : try_fewer_devices(p, c, request, e, best))
    trials.push_back(std::move(t));
  winner = winner_of(trials);
  if (winner < 0) {
    // The searches' memory is an upper bound, so what they rule out narrowly may fit after all.
    for (auto& t : e.run_least_missing())
      trials.push_back(std::move(t));
    winner = winner_of(trials);
    if (winner < 0) refuse(p, c, request, e, trials);
  }
  auto plans = contenders(trials, winner, request.top, most);
  for (auto& made : plans)
    made.inputs["cluster"] = c.name;
  return plans;
}

} // namespace penstock::planner
