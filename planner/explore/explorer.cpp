// Settings, searches, credits, simulation: in that order.
#include "planner/explore/explorer.hpp"

#include "planner/explore/choose.hpp"
#include "planner/explore/credit_choices.hpp"
#include "planner/explore/streaming.hpp"
#include "planner/interleaved.hpp"
#include "planner/profile/frozen_costs.hpp"
#include "planner/search/column_blocks.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace penstock::planner {

namespace {

/// Checked before anything is taken from it.
const profile& checked(const profile& p) {
  check_profile(p);
  return p;
}

const cluster& checked(const cluster& c) {
  check_cluster(c);
  return c;
}

/// Of whole minibatches: what the busiest device computes for one, whatever is in flight. Else 0.
double busiest_seconds(const plan& p) {
  double most = 0;
  if (p.microbatches > 1 || p.chunks > 1 || !p.predicted) return most;
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const auto& of = p.predicted->stages[s];
    most = std::max(most, (of.forward_seconds + of.backward_seconds) / p.stages[s].replicas);
  }
  return most;
}

pins pins_with(const profile& p, const cluster& c, const plan_request& request, model_hints hints) {
  auto fixed = resolve_pins(p, checked(c), request);
  if (hints == model_hints::kept)
    fixed.together.insert(fixed.together.end(), p.kept_together.begin(), p.kept_together.end());
  return fixed;
}

/// The same layers, where all that are frozen come before any that is not: so that no stage has a frozen layer behind
/// an active one.
profile with_frozen_first(profile p) {
  const auto frozen = frozen_prefix(p);
  std::vector<bool> is_last(static_cast<std::size_t>(frozen), true); // no frozen layer reads it
  for (int l = 0; l < frozen; ++l)
    for (const auto input : p.layers[static_cast<std::size_t>(l)].inputs)
      if (input >= 0) is_last[static_cast<std::size_t>(input)] = false;
  for (auto l = static_cast<std::size_t>(frozen); l < p.layers.size(); ++l) {
    auto& inputs = p.layers[l].inputs;
    if (std::any_of(inputs.begin(), inputs.end(), [&](int input) { return input >= frozen; })) continue;
    for (int before = 0; before < frozen; ++before)
      if (is_last[static_cast<std::size_t>(before)] && std::find(inputs.begin(), inputs.end(), before) == inputs.end())
        inputs.push_back(before);
  }
  return p;
}

/// The frozen layers and the first active one; where none is frozen, that alone.
std::vector<int> frozen_and_next(const profile& p) {
  const auto frozen = frozen_prefix(p);
  std::vector<int> layers(frozen > 0 ? static_cast<std::size_t>(frozen) + 1 : 1);
  std::iota(layers.begin(), layers.end(), 0);
  return layers;
}

double fastest_of(const std::vector<trial>& trials) {
  auto least = std::numeric_limits<double>::infinity();
  for (const auto& t : trials)
    if (t.runs()) least = std::min(least, t.step_seconds());
  return least;
}

/// More in flight makes it no faster, or not fast enough for anybody to look at it.
bool is_settled(const trial& t, double fastest) {
  constexpr double hopeless = 1.1;
  if (!t.runs()) return false;
  const auto least = busiest_seconds(t.made);
  return least > fastest * hopeless || t.step_seconds() <= least * (1 + 1e-9);
}

} // namespace

explorer::explorer(const profile& p, const cluster& c, const plan_request& request, model_hints hints)
    : profile_(checked(p)), request_(request), fixed_(pins_with(p, c, request, hints)),
      machines_(first_devices(c, fixed_.devices)), graph_(make_graph()), settings_(settings_of(p, request, fixed_)) {}

layer_graph explorer::make_graph() const {
  const auto limit = static_cast<int>(std::clamp<std::size_t>(request_.antichain_limit, 2, 1'000'000));
  const auto shape = with_frozen_first(profile_);
  auto together = fixed_.together;
  // A worker of several stages has none that is wholly frozen.
  if (std::all_of(fixed_.schedules.begin(), fixed_.schedules.end(), [](const auto& s) { return s == "interleaved"; }))
    together.push_back(frozen_and_next(profile_));
  layer_graph graph(shape, together, {.states = limit});
  std::vector<int> order(profile_.layers.size());
  std::iota(order.begin(), order.end(), 0);
  const bool has_all_cuts = std::all_of(fixed_.first_layers.begin(), fixed_.first_layers.end(), [&](int layer) {
    return graph.state_after(order, static_cast<std::size_t>(layer)) >= 0;
  });
  // Cuts are given in the profile's order, and not every prefix of it need be among the states.
  return has_all_cuts ? std::move(graph) : layer_graph(shape, together, {.states = 2});
}

exploration explorer::shared() const {
  return {profile_, machines_, graph_, fixed_.batch, request_.optimizer_copies, request_.last_batch, request_.ahead};
}

std::vector<int> explorer::counts_of_microbatches(const proposal& p) const {
  const auto m = p.how.search.microbatches;
  std::vector<int> counts{m};
  if (p.how.search.charge == update_charge::every_group) return counts;
  const auto round = column_blocks_of(replicas_of(p.what));
  const auto multiple = rounded_microbatches(p.how, round, fixed_.batch);
  if (multiple == m) return counts;
  if (multiple > 0 && hands_on(profile_)) counts.clear(); // m itself would part columns
  if (multiple > 0) counts.push_back(multiple);
  return counts;
}

/// None where the pinned ones are refused: then `refusal` says why.
std::vector<std::vector<std::int64_t>> explorer::credits_for(const proposal& p, int microbatches,
                                                             std::string& refusal) const {
  const auto frozen = frozen_stages_of(shared(), p.what);
  const auto replicas = replicas_of(p.what);
  std::vector<std::vector<std::int64_t>> choices;
  if (p.how.schedule == fbp_schedule) {
    choices.emplace_back(); // BaPipe's 2 (N - i + 1)
    for (auto after = static_cast<std::int64_t>(replicas.size()); after > 0; --after)
      choices.back().push_back(std::min<std::int64_t>(2 * after, microbatches));
  } else if (p.what.chunks > 1 || p.how.schedule == "interleaved") {
    const auto positions = static_cast<int>(replicas.size()) / p.what.chunks;
    choices = {interleaved_credits(positions, p.what.chunks, replicas.front(), microbatches)};
  } else if (fixed_.in_flight) {
    schedule_request wanted{
        .name = p.how.schedule, .replicas = replicas, .microbatches = microbatches, .frozen_stages = frozen};
    wanted.in_flight = *fixed_.in_flight;
    try {
      const auto settled = resolve_schedule(wanted);
      choices.emplace_back();
      for (const auto& stage : settled.stages)
        choices.back().push_back(stage.credit);
    } catch (const std::invalid_argument& fault) {
      refusal = fault.what();
    }
  } else {
    const auto period = p.step_seconds / microbatches;
    const std::vector<int> active(replicas.begin() + frozen, replicas.end());
    choices =
        credit_choices(p.how.schedule, active, microbatches, link_periods_of(shared(), p.what, microbatches, period));
    for (auto& credits : choices)
      credits.insert(credits.begin(), static_cast<std::size_t>(frozen), 1);
  }
  return choices;
}

void explorer::try_credits(const proposal& p, int microbatches, std::vector<trial>& trials) const {
  const auto e = shared();
  std::string refusal;
  const auto choices = credits_for(p, microbatches, refusal);
  if (!refusal.empty()) {
    trials.emplace_back();
    trials.back().origin = p.what.origin;
    trials.back().refused = refusal;
  }
  const auto fastest = fastest_of(trials);
  for (const auto& credits : choices) { // those with least in flight first
    auto made = plan_of(e, p.what, p.how.schedule, microbatches, credits);
    const auto first = static_cast<std::size_t>(frozen_stages_of(made));
    for (auto s = first; fixed_.update_lag && s < made.stages.size() && p.how.schedule != fbp_schedule; ++s)
      made.stages[s].update_lag = fixed_.update_lag->size() == 1 ? fixed_.update_lag->front() : (*fixed_.update_lag)[s];
    trials.push_back(try_plan(e, std::move(made), p.what.origin));
    if (is_settled(trials.back(), fastest)) return;
  }
}

/// Of the winner so far, the lag of one stage after the other is left out where the plan is as fast without it.
void explorer::try_less_lag(std::vector<trial>& trials) const {
  const auto winner = winner_of(trials);
  if (winner < 0) return;
  auto best = trials[static_cast<std::size_t>(winner)];
  for (std::size_t s = 0; s < best.made.stages.size(); ++s) {
    if (best.made.stages[s].update_lag == 0) continue;
    auto without = best.made;
    without.stages[s].update_lag = 0;
    trials.push_back(try_plan(shared(), std::move(without), best.origin));
    const auto& tried = trials.back();
    if (tried.runs() && tried.step_seconds() <= best.step_seconds() * (1 + 1e-9)) best = tried;
  }
}

double explorer::least_seconds(int devices) const {
  if (has_streaming_devices(machines_)) return 0;
  const auto batch = static_cast<double>(fixed_.batch);
  std::vector<double> least(profile_.layers.size(), std::numeric_limits<double>::infinity()); // of a sample
  for (const auto& type : machines_.devices) {
    const auto& costs_of = type.own_profile ? *type.own_profile : profile_;
    std::vector<double> sizes{batch};
    for (const auto& m : costs_of.measurements) // costs are linear in between
      sizes.push_back(static_cast<double>(m.samples));
    for (const auto& how : settings_)
      for (const auto size : {how.search.samples, how.least_samples})
        if (size > 0) sizes.push_back(size);
    for (const auto size : sizes) {
      const auto costs = costs_at(costs_of, size, type.threads);
      for (std::size_t l = 0; l < least.size(); ++l)
        least[l] = std::min(least[l], (costs[l].forward_seconds + costs[l].backward_seconds) / size /
                                          (type.own_profile ? 1 : type.speed));
    }
  }
  return batch * std::accumulate(least.begin(), least.end(), 0.0) / devices;
}

std::vector<trial> explorer::run() const {
  // Seconds of the two estimates are not to be held against each other.
  std::vector<proposal> by_estimate[2], lagging[2];
  for (auto& p : propose(shared(), settings_, fixed_)) {
    const auto errs = p.how.search.errs == estimate::hopeful ? 1 : 0;
    (p.how.search.update_lag > 0 ? lagging : by_estimate)[errs].push_back(std::move(p));
  }
  // A simulation's time grows with the devices: of many, fewer proposals are played.
  constexpr std::size_t few_devices = 32;
  const auto devices = std::max(few_devices, static_cast<std::size_t>(machines_.device_count()));
  const auto top = std::max<std::size_t>(2, request_.top * few_devices / devices);
  std::vector<trial> trials;
  const auto try_best = [&](std::vector<proposal>& proposals, std::size_t count) {
    for (const auto& p : select(std::move(proposals), count))
      for (const auto m : counts_of_microbatches(p))
        try_credits(p, m, trials);
  };
  // A lag makes any plan faster or leaves it as it is: those with one are not to crowd out those without.
  for (auto& proposals : by_estimate)
    try_best(proposals, top);
  for (auto& proposals : lagging)
    try_best(proposals, (top + 1) / 2);
  if (!fixed_.update_lag) try_less_lag(trials);
  return trials;
}

std::vector<trial> explorer::run_least_missing() const {
  std::vector<trial> trials;
  for (const auto& p : propose_least_missing(shared(), settings_, fixed_))
    try_credits(p, p.how.search.microbatches, trials);
  return trials;
}

} // namespace penstock::planner
