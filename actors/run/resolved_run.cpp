// Resolving a run: plan, steps, drain points.
#include "actors/run/resolved_run.hpp"

#include "actors/checkpoint/checkpoint.hpp"
#include "actors/layer_actor.hpp"
#include "actors/policy/settle_plan.hpp"
#include "actors/ranks/job.hpp"
#include "actors/run/column_needs.hpp"
#include "actors/run/sample_needs.hpp"
#include "actors/source/data_binding.hpp"
#include "kernels/check.hpp"
#include "kernels/device_kinds.hpp"
#include "planner/check_schedule.hpp"

#include <algorithm>

namespace penstock::actors {

namespace {

void check_data(const run_options& o, const run_inputs& in) {
  if (in.train == nullptr || in.train->size() < 1) throw usage_error("data: no training samples");
  for (const auto* d : {in.train, in.test})
    if (d != nullptr) bind_data(*in.net, *d);
  if (in.net->losses().empty() && !o.eval_only) throw usage_error(in.net->name() + " has no loss to train by");
  if (o.eval_only && in.test == nullptr) throw usage_error("eval-only: this data has no test set");
}

void check_numbers(const planner::execution_plan& plan, const run_options& o) {
  const auto at_least = [](const char* name, auto value, auto least) {
    if (value < least)
      throw usage_error(std::string(name) + " is " + std::to_string(value) + "; wanted at least " +
                        std::to_string(least));
  };
  const auto at_most = [](const char* name, std::int64_t value, std::int64_t most) {
    if (value > most)
      throw usage_error(std::string(name) + " is " + std::to_string(value) + "; wanted at most " +
                        std::to_string(most));
  };
  // More than any one machine has; beyond it the system runs out of threads somewhere, and says so badly.
  constexpr std::int64_t most_threads = 1024;
  const auto workers = workers_of(plan);
  at_most("threads", plan.threads, most_threads);
  at_most("loader threads", o.loader_threads, most_threads);
  at_most("the number of stage replicas", workers, most_threads);
  at_most("threads of all workers", workers * std::max(1, plan.threads), 4 * most_threads);
  at_least("batch", o.batch, std::int64_t{1});
  at_least("epochs", o.epochs, std::int64_t{0});
  at_least("steps", o.steps, std::int64_t{0});
  at_least("threads", plan.threads, 0);
  at_least("loader threads", o.loader_threads, 1);
  at_least("checkpoint-every", o.checkpoint_every, std::int64_t{0});
  if (!(o.stall_seconds > 0)) throw usage_error("the stall timeout must be above 0 seconds");
  if (!(o.clip_norm >= 0)) throw usage_error("clip-norm must be 0 (off) or above");
  if (!(o.clip_stage_norm >= 0)) throw usage_error("clip-stage-norm must be 0 (off) or above");
  if (o.clip_norm > 0 && o.clip_stage_norm > 0)
    throw usage_error("--clip-norm and --clip-stage-norm were both given; wanted one: the norm of all gradients, or of "
                      "each stage's own");
  if (!(o.label_smoothing >= 0 && o.label_smoothing < 1))
    throw usage_error("label smoothing must be at least 0 and below 1");
  if (o.checkpoint_every > 0 && o.checkpoint.empty()) throw usage_error("checkpoint-every needs a checkpoint folder");
  if (o.resume && o.checkpoint.empty()) throw usage_error("resume needs a checkpoint folder");
  if (o.resume && !o.weights.empty())
    throw usage_error("resume takes the weights from the checkpoint; leave out the weights file " + o.weights.string());
  if (o.executor == executor_kind::oracle && !o.trace.empty())
    throw usage_error("the oracle has no actors to trace; leave out the trace file " + o.trace.string());
}

// Of a job, rank 0 reads and writes them: what lies under the same name on another host is nobody's concern.
void check_checkpoint_folder(const run_options& o, const run_inputs& in) {
  const bool is_used = in.ranks == nullptr || in.ranks->rank() == 0;
  if (is_used && !o.resume && !o.eval_only && !o.checkpoint.empty() && has_checkpoint(o.checkpoint))
    throw usage_error(refusal_of_used(o.checkpoint));
}

void check_layer_actors(const run_options& o, const run_inputs& in, const std::vector<int>& cuts) {
  for (const auto& factory : in.layer_actors) {
    if (o.executor == executor_kind::oracle)
      throw usage_error("the oracle cannot replay a layer actor (after " + factory->after_layer() +
                        "); use the actors executor");
    const auto follows = [&](int c) {
      return c > 0 && in.net->layers()[static_cast<std::size_t>(c - 1)].name == factory->after_layer();
    };
    if (std::none_of(cuts.begin(), cuts.end(), follows))
      throw usage_error("a layer actor sits after " + factory->after_layer() + ", but no stage ends there");
  }
}

// Stages that update apart, or clip apart, cannot keep one tensor equal.
void check_ties(const resolved_run& plan, const model& net) {
  const bool updates_apart = !plan.dealing.synchronous && plan.plan->schedule != "2bw";
  if (!updates_apart && plan.options.clip_stage_norm <= 0) return;
  const auto why = updates_apart ? "under " + plan.plan->schedule +
                                       " stages update apart: wanted --schedule 1f1b or 2bw, or a model with --untied"
                                 : "--clip-stage-norm scales its gradient otherwise on each: wanted --clip-norm and a "
                                   "synchronous schedule such as 1f1b, or a model with --untied";
  const auto first = first_layers_of(*plan.plan, net);
  const auto stage_of = [&](int layer) {
    return std::upper_bound(first.begin(), first.end(), layer) - first.begin() - 1;
  };
  for (const auto& tie : net.ties())
    if (const auto from = stage_of(tie.uses.front().layer), to = stage_of(tie.uses.back().layer);
        from != to && tie.uses.front().layer >= plan.plan->frozen_until)
      throw usage_error(tie.name + " is used by " +
                        net.layers()[static_cast<std::size_t>(tie.uses.front().layer)].name + " on stage " +
                        std::to_string(from) + " and " +
                        net.layers()[static_cast<std::size_t>(tie.uses.back().layer)].name + " on stage " +
                        std::to_string(to) + ", and " + why);
}

void check_schedule_fits(const resolved_run& plan) {
  const auto& o = plan.options;
  const int microbatches = plan.plan->microbatches;
  if (o.batch < microbatches)
    throw usage_error("batch " + std::to_string(o.batch) + " cannot be split into " + std::to_string(microbatches) +
                      " micro-batches; each needs at least one sample");
  if (o.clip_norm > 0 && !plan.dealing.synchronous)
    throw usage_error("--clip-norm needs the gradients of all stages at one version, and " + plan.plan->schedule +
                      " never has them together; use a synchronous schedule such as 1f1b, or --clip-stage-norm");
}

} // namespace

resolved_run resolve_run(const planner::plan_ptr& given, const run_options& options, const run_inputs& inputs) {
  if (given == nullptr) throw usage_error("no plan was given, wanted one that settle_plan has made");
  resolved_run plan;
  plan.options = options;
  auto& o = plan.options;
  check_numbers(*given, o);
  check_checkpoint_folder(o, inputs);
  check_data(o, inputs);
  const int processes = inputs.ranks != nullptr ? inputs.ranks->size() : 1;
  plan.rank = inputs.ranks != nullptr ? inputs.ranks->rank() : 0;
  if (processes > 1 && o.executor == executor_kind::oracle)
    throw usage_error("the oracle runs in one process; this job has " + std::to_string(processes));
  plan.plan = settle_plan(*given, *inputs.net, {processes, plan.rank});
  plan.dealing = schedule_of(*plan.plan);
  check_schedule_fits(plan);
  check_ties(plan, *inputs.net);
  if (o.eval_batch == 0) o.eval_batch = o.batch;
  o.rate_replicas = inputs.first_replicas > 0 ? inputs.first_replicas : rate_replicas_of(*plan.plan);
  check_layer_actors(o, inputs, first_layers_of(*plan.plan, *inputs.net));
  settle_columns(plan, inputs);
  require_whole_minibatch(o, inputs.train->size());
  const epoch_minibatches minibatches(inputs.train->size(), o.batch, o.last);
  plan.data = inputs.train->minibatches(training_batches(o));
  plan.drains.per_epoch = plan.data->per_epoch();
  plan.drains.multiple = o.column_blocks;
  plan.drains.total = o.steps > 0 ? o.steps : o.epochs * plan.drains.per_epoch;
  plan.drains.eval_every = inputs.test != nullptr ? o.eval_every : 0;
  plan.drains.checkpoint_every = o.checkpoint.empty() ? 0 : o.checkpoint_every;
  o.lr.total_steps = plan.drains.total;
  if (!o.eval_only)
    require_enough_samples(*inputs.net, minibatches, o.batch, plan.drains.total, plan.plan->microbatches,
                           plan.plan->frozen_until);
  make_optimizer(o.optimizer); // refuses bad values now
  const auto [library, instruction_set] = compute_library_of(o.device, o.reference_kernels);
  plan.instruction_set = instruction_set;
  plan.compute_library = library;
  return plan;
}

resolved_run resolve_change(const resolved_run& now, const planner::plan_ptr& to, const run_inputs& inputs) {
  auto plan = now;
  check_numbers(*to, plan.options);
  plan.plan = settle_plan(*to, *inputs.net, {placement_of(*now.plan).ranks, now.rank});
  plan.dealing = schedule_of(*plan.plan);
  check_schedule_fits(plan);
  check_ties(plan, *inputs.net);
  check_layer_actors(plan.options, inputs, first_layers_of(*plan.plan, *inputs.net));
  require_fitting_replicas(plan, *inputs.net);
  const epoch_minibatches minibatches(inputs.train->size(), plan.options.batch, plan.options.last);
  require_enough_samples(*inputs.net, minibatches, plan.options.batch, plan.drains.total, plan.plan->microbatches,
                         plan.plan->frozen_until);
  return plan;
}

stretch_ptr plan_stretch(const resolved_run& plan, std::int64_t number, std::int64_t first, std::int64_t minibatches,
                         std::shared_ptr<const named_tensors> carried) {
  auto run = std::make_shared<stretch>();
  run->number = number;
  run->first_minibatch = first;
  run->data = plan.data;
  run->columns = plan.columns;
  run->column_blocks = plan.options.column_blocks;
  run->carried = std::move(carried);
  run->average_from = plan.average_from;
  run->schedule = plan.dealing;
  run->schedule.minibatches = minibatches;
  if (const auto fault = planner::check_schedule(run->schedule))
    throw usage_error("schedule " + plan.plan->schedule + " cannot run: " + *fault);
  return run;
}

} // namespace penstock::actors
