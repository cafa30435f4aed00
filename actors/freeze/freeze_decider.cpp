// From sums to statistics, from an answer to a decision.
#include "actors/freeze/freeze_decider.hpp"

#include "kernels/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace penstock::actors {

namespace {

struct mean_squares {
  double sum = 0;
  bool any = false;

  void add(double value) {
    sum += value;
    any = true;
  }
  double root() const { return any ? std::sqrt(sum) : not_seen; }
};

} // namespace

freeze_decider::freeze_decider(const model& net, freeze_policy_ptr policy, freeze_guards guards)
    : net_(&net), units_(net), policy_(std::move(policy)), guards_(guards) {
  if (units_.count() == 0) throw usage_error(net.name() + " has nothing that may freeze: wanted two layers that learn");
}

void freeze_decider::add_losses(double sum, std::int64_t minibatches) {
  history_.losses += sum;
  history_.minibatches += minibatches;
}

void freeze_decider::add_evaluation(double loss) {
  history_.validation_loss = loss;
}

// Squares are added in the order of layers and parameters, wherever they were computed.
freeze_statistics freeze_decider::statistics(const freeze_point& at) const {
  freeze_statistics seen;
  seen.interval = history_.interval + 1;
  seen.step = at.step;
  seen.epochs = at.epochs;
  seen.depth = history_.depth;
  seen.learning_rate = at.learning_rate;
  seen.rate_at_freeze = history_.rate_at_freeze;
  seen.validation_loss = history_.validation_loss;
  if (history_.minibatches > 0) seen.training_loss = history_.losses / static_cast<double>(history_.minibatches);
  std::set<std::string> counted; // a tensor with several uses counts in the first
  for (std::size_t u = 0; u < units_.all().size(); ++u) {
    const auto& unit = units_.all()[u];
    freeze_unit_seen one{.name = unit.name, .parameters = unit.parameters};
    if (u < history_.norms_before.size()) one.norm_before = history_.norms_before[u];
    mean_squares of_unit;
    for (int l = unit.first; l < unit.last; ++l) {
      freeze_layer_seen layer{.name = net_->layers()[static_cast<std::size_t>(l)].name};
      mean_squares of_layer;
      for (const auto& p : net_->parameters(l)) {
        if (!counted.insert(p.name).second) continue;
        layer.parameters += element_count(p.dims);
        const auto found = history_.gradients.find(p.name);
        if (found == history_.gradients.end() || found->second.updates == 0) continue;
        of_layer.add(found->second.squares / static_cast<double>(found->second.updates));
      }
      if (layer.parameters == 0) continue;
      layer.gradient_norm = of_layer.root();
      if (of_layer.any) of_unit.add(of_layer.sum);
      one.layers.push_back(std::move(layer));
    }
    one.gradient_norm = of_unit.root();
    seen.units.push_back(std::move(one));
  }
  return seen;
}

freeze_decision freeze_decider::decide(const freeze_point& at) {
  check(policy_ != nullptr, "decisions that are repeated are not made");
  freeze_decision made;
  made.number = history_.decisions + 1;
  made.policy = policy_->text();
  made.guards = text_of(guards_);
  made.seen = statistics(at);
  made.asked = policy_->depth(made.seen);
  if (made.asked < 0 || made.asked > units_.count())
    throw error(fmt::format("[freeze] the policy {} answered {} units, wanted 0 to {}", made.policy, made.asked,
                            units_.count()));
  auto guarded = guard_depth(guards_, made.seen, made.asked, history_.best_validation);
  made.why = std::move(guarded.why);
  made.thaws = guarded.thaws;
  made.depth = units_.deepest(guarded.depth);
  if (made.depth < guarded.depth)
    made.why = fmt::format("{}{} is used by active layers too: the depth stops before it",
                           made.why.empty() ? "" : made.why + "; ", units_.held_by(guarded.depth));
  made.frozen_until = units_.frozen_until(made.depth);
  begin_interval(made);
  return made;
}

void freeze_decider::repeat(const freeze_decision& decided) {
  check(decided.number == history_.decisions + 1, "a decision is repeated out of turn");
  begin_interval(decided);
}

void freeze_decider::begin_interval(const freeze_decision& after) {
  const auto& seen = after.seen;
  history_.decisions = after.number;
  history_.interval = after.thaws ? 0 : seen.interval;
  if (after.depth > seen.depth) history_.rate_at_freeze = seen.learning_rate;
  if (after.thaws) history_.rate_at_freeze = not_seen;
  if (after.thaws || std::isnan(history_.best_validation))
    history_.best_validation = seen.validation_loss; // not_seen where the interval had no evaluation
  else if (!std::isnan(seen.validation_loss))
    history_.best_validation = std::min(history_.best_validation, seen.validation_loss);
  history_.depth = after.depth;
  history_.norms_before.clear();
  for (const auto& unit : seen.units)
    history_.norms_before.push_back(unit.gradient_norm);
  history_.losses = 0;
  history_.minibatches = 0;
  history_.validation_loss = not_seen;
  history_.gradients.clear();
}

std::string text_of(const freeze_decision& d) {
  const auto units = d.seen.units.size();
  std::string text = fmt::format("{} of {} units frozen", d.depth, units);
  if (!d.frozen_until.empty()) text += ", all before " + d.frozen_until;
  if (d.thaws) text = "thawed";
  text += fmt::format(" after step {} ({} asked for {})", d.seen.step, d.policy, d.asked);
  return d.why.empty() ? text : text + "; " + d.why;
}

} // namespace penstock::actors
