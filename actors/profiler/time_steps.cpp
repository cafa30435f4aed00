// The trainer without its files, evaluations and summary.
#include "actors/profiler/time_steps.hpp"

#include "actors/made_up_data.hpp"
#include "actors/run/resolved_run.hpp"
#include "actors/run/step_log.hpp"
#include "actors/stage/places.hpp"

#include <algorithm>
#include <chrono>

namespace penstock::actors {

namespace {

using clock = std::chrono::steady_clock;

// Watches the steps go by and asks for the end when there are enough of them.
class stop_watch final : public run_observer {
public:
  stop_watch(const timing_options& how, run_control& control, std::int64_t unsettled)
      : how_(how), control_(control), unsettled_(unsettled) {}

  void on_step(const step_event& event) override {
    last_ = clock::now();
    if (event.step == 1) begun_ = last_;
    const bool is_time_up = std::chrono::duration<double>(last_ - begun_).count() > how_.most_seconds;
    if (event.step > 1)
      until_now_ = std::chrono::duration<double>(last_ - begun_).count() / static_cast<double>(event.step - 1);
    if (event.step <= unsettled_)
      first_ = last_;
    else
      ++steps_;
    if (is_time_up || (steps_ >= how_.least_steps && seconds() >= how_.seconds)) control_.stop = true;
  }
  /// Where the time was up before the pipeline was full, of the steps there were.
  double seconds_of_a_step() const { return steps_ > 0 ? seconds() / static_cast<double>(steps_) : until_now_; }

private:
  double seconds() const { return std::chrono::duration<double>(last_ - first_).count(); }

  const timing_options& how_;
  run_control& control_;
  std::int64_t unsettled_; // steps that do not count
  std::int64_t steps_ = 0;
  double until_now_ = 0;
  clock::time_point begun_{}, first_{}, last_{};
};

// Only what decides the work of a step.
void leave_out_the_rest(run_options& o) {
  constexpr std::int64_t more_than_are_timed = 1 << 14;
  o.epochs = 1;
  o.steps = more_than_are_timed;
  o.eval_every = -1;
  o.eval_only = o.resume = o.allow_partial = false;
  o.checkpoint_every = 0;
  o.weights = o.save_weights = o.save_gradients = o.checkpoint = o.trace = std::filesystem::path();
  o.executor = executor_kind::actors;
  o.stop_on_nonfinite = false;
  o.draws_weights = false;
  o.lr = {};
  o.lr.base = 0; // the work is the same, and nothing can overflow
}

// The loss of a step is told before its backward: the first backwards and updates, which touch the memory of gradients,
// moments and versions for the first time and make their kernels, fall into the steps after those that fill the
// pipeline.
constexpr std::int64_t steps_of_first_updates = 2;

std::int64_t steps_to_settle(const resolved_run& plan) {
  std::int64_t most = 1;
  for (const auto& stage : plan.dealing.stages)
    most = std::max<std::int64_t>(most, stage.credit * stage.replicas);
  return (most + plan.plan->microbatches - 1) / plan.plan->microbatches + steps_of_first_updates;
}

} // namespace

double time_steps(const planner::plan_ptr& plan, run_options options, const std::shared_ptr<const model>& net,
                  const job* ranks, const timing_options& how) {
  leave_out_the_rest(options);
  const made_up_data samples(*net, 4 * options.batch, 1, how.extents);
  run_inputs inputs;
  inputs.net = net;
  inputs.train = &samples;
  inputs.ranks = ranks;
  const auto run = resolve_run(plan, options, inputs);
  const auto parts = build_pipeline(*run.plan, run.options, net, run.rank);
  for (auto& stage : parts->stages)
    for (const int local : stage.local)
      stage.replicas[static_cast<std::size_t>(local)].observe = [&how](const layer_observation&) {
        if (how.should_stop && how.should_stop()) throw error("stopped before it was timed");
      };
  run_control control;
  stop_watch watch(how, control, steps_to_settle(run));
  step_log steps(net, watch, run.options.lr, run.plan->microbatches, run.drains.per_epoch, run.drains.total);
  steps.set_tellers(metrics_tellers(*parts));
  run_services services{*run.plan, run.options, *parts, inputs, watch, control, steps};
  // Stretches of the training that follows begin with 0; what is said late about this one finds nobody.
  const auto stretch = (std::int64_t{1} << 40) + how.number;
  make_actors_executor(services)->train(plan_stretch(run, stretch, 0, run.drains.total));
  return watch.seconds_of_a_step();
}

} // namespace penstock::actors
