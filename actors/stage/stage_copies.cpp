// Statistics are few; optimizer state is as large as the weights and is read once, at the speed of memory.
#include "actors/stage/stage_copies.hpp"

#include "kernels/finite.hpp"
#include "kernels/ops/elementwise_ops.hpp"

#include <algorithm>

namespace penstock::actors {

void stage_copy::merge(stage_copy other) {
  version = std::max(version, other.version);
  optimizer_steps.merge(other.optimizer_steps);
  weights.merge(other.weights);
  optimizer_state.merge(other.optimizer_state);
  states.merge(other.states);
  carried.merge(other.carried);
  first_gradients.merge(other.first_gradients);
}

namespace {

std::string of_stage(const stage_unit& s, const std::string& after) {
  return " of stage " + std::to_string(s.index) + " " + after;
}

void look_through_state(backend& ops, const pipeline& p, const stage_unit& s, const stage_weights& owned,
                        const std::string& after, outcome& tells) {
  const auto names = p.rule->state_names();
  for (auto i = s.layers->frozen_parameters(); i < owned.optimizer_states.size(); ++i)
    for (std::size_t n = 0; n < names.size(); ++n) {
      const auto& t = owned.optimizer_states[i].tensors[n];
      tells.expect(
          ops.get<elementwise_ops>().find_nonfinite(t),
          [dims = t.dims(), what = "[training] optimizer state " + s.layers->parameters()[i].name + "." + names[n] +
                                   of_stage(s, after)](const tensor& found) { require_none_found(found, dims, what); });
    }
}

void lend(stage_copy& copy, const pipeline& p, const stage_unit& s, const stage_weights& owned) {
  const auto states = p.rule->state_names();
  for (std::size_t i = 0; i < owned.newest->tensors.size(); ++i) {
    const auto& name = s.layers->parameters()[i].name;
    copy.weights[name] = owned.newest->tensors[i];
    if (i < s.layers->frozen_parameters()) continue;
    for (std::size_t n = 0; n < states.size(); ++n)
      copy.optimizer_state[name + "." + states[n]] = owned.optimizer_states[i].tensors[n];
  }
}

} // namespace

stage_copy copy_learnt(backend& ops, const pipeline& p, const stage_unit& s, const stage_weights& owned, copy_of what,
                       const std::string& after, memory_pool& pool, outcome& tells) {
  stage_copy copy;
  if (what == copy_of::nothing) look_through_state(ops, p, s, owned, after, tells);
  if (what == copy_of::first_gradients)
    for (const auto& [name, gradient] : owned.first_gradients)
      copy.first_gradients[name] = ops.to_host(gradient, pool);
  // One rank speaks for the stage.
  const bool is_wanted = what == copy_of::everything || what == copy_of::as_stored;
  if (!is_wanted || p.where.owner(s.index) != p.rank) return copy;
  copy.version = owned.newest->version;
  for (auto i = s.layers->frozen_parameters(); i < owned.optimizer_states.size(); ++i)
    copy.optimizer_steps[s.layers->parameters()[i].name] = owned.optimizer_states[i].step;
  if (what == copy_of::as_stored) {
    lend(copy, p, s, owned);
    return copy;
  }
  copy.weights = plain_weights(ops, *s.layers, owned, pool);
  copy.optimizer_state = plain_optimizer_state(ops, *s.layers, *p.rule, owned, pool);
  return copy;
}

stage_copy copy_states(backend& ops, const stage_unit& s, int replica, std::span<const tensor> states, copy_of what,
                       const std::string& after, memory_pool& pool, outcome& tells) {
  stage_copy copy;
  const bool is_wanted = is_copied(what, copy_of::statistics);
  if (!is_wanted && what != copy_of::nothing) return copy;
  for (std::size_t i = 0; i < s.layers->states().size(); ++i) {
    const auto& state = s.layers->states()[i];
    auto one = ops.to_host(states[i], pool);
    if (what == copy_of::nothing)
      tells.then([one, spec = state.spec, what = "[training] " + state.name + of_stage(s, after)] {
        require_state(one, spec, what);
      });
    else
      copy.states[replica][state.name] = std::move(one);
  }
  return copy;
}

stage_measures measure_stage(const stage_unit& s, const stage_weights& owned) {
  stage_measures m;
  m.updates = owned.newest->version;
  for (std::size_t i = 0; i < owned.newest->tensors.size(); ++i)
    if (!s.layers->is_repeat(i)) m.weight_bytes += static_cast<std::int64_t>(owned.newest->tensors[i].bytes());
  const auto& times = s.first_local().times;
  m.forward_seconds = times.forward.median_seconds();
  m.backward_seconds =
      times.backward.median_seconds() + times.backward_input.median_seconds() + times.backward_weight.median_seconds();
  m.update_seconds = times.update.median_seconds();
  return m;
}

} // namespace penstock::actors
