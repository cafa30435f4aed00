// What a scripted run must come to.
#include "actors/checkpoint/digest.hpp"
#include "actors/ranks/stage_snapshot.hpp"
#include "actors/run/step_log.hpp"
#include "tests/actors/scripted/scripted_run.hpp"

namespace penstock::testing {

using namespace actors; // NOLINT: a test speaks of little else

std::string hash_of_all(const pipeline& parts, std::map<int, stage_copy> copies) {
  memory_pool pool;
  const auto all = collect_snapshots(parts, std::move(copies), nullptr, pool);
  named_tensors everything = weights_of(all);
  everything.merge(optimizer_state_of(all));
  everything.merge(states_of(all, parts.net, pool));
  return sha256_of(everything);
}

std::unique_ptr<pipeline> build_in_one_process(const scripted_case& what) {
  auto plan = *what.plan.plan;
  plan.processes = 1;
  for (auto& stage : plan.stages)
    stage.ranks.assign(static_cast<std::size_t>(stage.replicas), 0);
  return build_pipeline(plan, what.plan.options, what.inputs.net);
}

scripted_outcome run_oracle(const scripted_case& what, const std::vector<std::int64_t>& stretches) {
  scripted_outcome outcome;
  auto parts = build_in_one_process(what);
  run_observer observer;
  run_control control;
  step_log steps(what.inputs.net, observer, what.plan.options.lr, what.plan.plan->microbatches,
                 what.plan.drains.per_epoch, what.plan.drains.total);
  run_services services{*what.plan.plan, what.plan.options, *parts, what.inputs, observer, control, steps};
  const auto oracle = make_oracle_executor(services);
  std::int64_t done = 0;
  for (const auto minibatches : stretches) {
    const auto number = static_cast<std::int64_t>(outcome.stretches.size());
    oracle->train(plan_stretch(what.plan, number, done, minibatches));
    done += minibatches;
    outcome.stretches.push_back(minibatches);
    if (what.inputs.test == nullptr) continue;
    const auto states = shared_mean_states(*parts, oracle->collect(copy_of::statistics), nullptr);
    outcome.losses.push_back(oracle->evaluate(*what.inputs.test, what.plan.options.eval_batch, states)->sums[0]);
  }
  outcome.weights = hash_of_all(*parts, oracle->collect(copy_of::everything));
  return outcome;
}

} // namespace penstock::testing
