// From plan files to what the runtime may change to.
#include "apps/runner/plan_changes.hpp"

#include "actors/checkpoint/checkpoint.hpp"
#include "apps/runner/app_job.hpp"
#include "apps/runner/apply_plan.hpp"
#include "apps/runner/of_option.hpp"
#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"
#include "kernels/text.hpp"
#include "planner/presets.hpp"
#include "transport/control/this_member.hpp"

#include <fmt/format.h>

#include <charconv>

namespace penstock::apps {

namespace {

constexpr const char* option = "--replan";

std::vector<rank_room> rooms_of(const app_job* job) {
  const auto here = memory_there_is();
  if (job == nullptr) return {{"this machine", "here", here}};
  const auto& ranks = job->ranks();
  std::vector<rank_room> rooms;
  const auto all = ranks.control.all_gather("memory for changes of plan", fmt::format("{:.0f}", here), ranks.patience);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto& member = ranks.control.members()[r];
    rooms.push_back({member.host, member.host_identity, std::stod(all[r])});
  }
  return rooms;
}

// The runtime deals ranks anew for other numbers of processes, at a run's start. Who changes a plan under way means
// the processes that there are.
void require_processes(const planner::execution_plan& p, int processes) {
  const auto refuse = [&](int found) {
    throw usage_error(fmt::format("the plan is for {} processes, this job has {}", found, processes));
  };
  if (p.processes > processes) refuse(p.processes);
  for (const auto& stage : p.stages)
    for (const int rank : stage.ranks)
      if (rank >= processes) refuse(rank + 1);
  if (processes == 1) return;
  for (const auto& stage : p.stages)
    for (const auto& device : stage.devices) {
      const auto colon = device.rfind(':');
      const char* end = device.data() + device.size();
      int number = -1;
      if (colon != std::string::npos) std::from_chars(device.data() + colon + 1, end, number);
      if (number >= processes)
        throw usage_error(fmt::format("the plan has a worker on {}, this job {} processes", device, processes));
    }
}

void require_family(const std::string& next, const std::string& now) {
  if (family_of(next) == family_of(now)) return;
  throw usage_error("the plan's schedule is " + next + ", wanted one of the family of " + now + " (" + family_of(now) +
                    "): in another one weights mean something else");
}

// A change is no start: folders and first weights are not its concern.
actors::run_options of_change(actors::run_options o) {
  o.checkpoint.clear();
  o.checkpoint_every = 0;
  o.resume = false;
  o.weights.clear();
  return o;
}

planner::plan read_change(const change_request& change, app_job* job) {
  std::optional<planner::plan> here;
  if (job == nullptr || job->is_first()) here = read_plan_file(change.file, option);
  if (job == nullptr) return std::move(*here);
  const auto text = here ? planner::to_json(*here) : "";
  return planner::plan_from_json(
      job->ranks().control.broadcast("plan after step " + std::to_string(change.step), text, job->ranks().patience),
      "the plan of rank 0");
}

// 0 where nothing is resumed.
std::int64_t resumed_step(const actors::run_options& o, app_job* job) {
  if (!o.resume) return 0;
  const bool reads = job == nullptr || job->is_first();
  const auto here = reads ? actors::step_of_checkpoint(o.checkpoint) : 0;
  if (job == nullptr) return here;
  return std::stoll(
      job->ranks().control.broadcast("step of the checkpoint", std::to_string(here), job->ranks().patience));
}

} // namespace

std::string family_of(const std::string& schedule) {
  const auto& rules = planner::find_preset(schedule);
  if (rules.unit == planner::update_unit::minibatch_after_next) return "2bw";
  return planner::resolve_schedule({.name = schedule}).synchronous ? "synchronous" : "pipedream";
}

change_settler::change_settler(const app_options& options, app_job* job, const prepared_run& run)
    : threads_(options.pipeline.threads), where_(place_in(job)), options_(of_change(run.options)), inputs_(run.inputs),
      rooms_(rooms_of(job)) {
  inputs_.changes.clear();
  total_steps_ = options_.steps > 0 ? options_.steps : run.steps_per_epoch * options_.epochs;
}

planner::plan_ptr change_settler::settle(planner::plan given, const planner::execution_plan& now) const {
  try {
    if (!given.model_options.empty() && given.model_options != inputs_.model_options)
      throw usage_error("the plan is for " + given.model_options + ", wanted one for " + inputs_.model_options);
    if (given.microbatches == 0) given.microbatches = now.microbatches;
    if (given.threads == 0 && threads_ == 0) given.threads = now.threads;
    require_processes(given, where_.processes);
    auto fitted = fit_plan(given, inputs_.net, threads_, "");
    require_family(fitted.plan.schedule, now.schedule);
    auto settled = actors::settle_plan(std::move(fitted.plan), *inputs_.net, where_);
    actors::plan_run(settled, options_, inputs_); // what a run of it would be refused for
    const auto predicted = given.predicted && given.batch == options_.batch ? given.predicted->stages
                                                                            : std::vector<planner::stage_prediction>();
    require_room(now, *settled, predicted, *inputs_.net, options_.batch, optimizer_copies(options_.optimizer), rooms_);
    return settled;
  } catch (const std::invalid_argument& fault) {
    throw usage_error(fault.what());
  }
}

void settle_changes(const app_options& options, app_job* job, const change_settler& settler, prepared_run& run) {
  if (options.plan.changes.empty()) return;
  const auto done = resumed_step(run.options, job);
  planner::plan_ptr now = run.plan;
  run.inputs.first_replicas = actors::rate_replicas_of(*run.plan);
  for (const auto& change : options.plan.changes) {
    const auto name = std::string(option) + ": " + text_of(change);
    if (change.step >= settler.total_steps())
      throw usage_error(
          fmt::format("{}: the run ends after step {}, wanted a step before", name, settler.total_steps()));
    auto given = read_change(change, job);
    now = of_option(name, [&] {
      if (const auto lost = lost_before(); !lost.empty()) {
        leave_out_lost(given, lost, place_in(job).processes, *run.inputs.net);
        given.predicted.reset();
      }
      return settler.settle(std::move(given), *now);
    });
    if (change.step > done) {
      run.inputs.changes.push_back({change.step, now});
      continue;
    }
    planner::plan start;
    static_cast<planner::execution_plan&>(start) = *now;
    start.model = run.plan->model;
    start.model_options = run.plan->model_options;
    start.batch = run.plan->batch;
    start.optimizer_copies = run.plan->optimizer_copies;
    run.plan = std::make_shared<const planner::plan>(std::move(start));
    run.notes.push_back("the plan of " + change.file + " took over after step " + std::to_string(change.step) +
                        ", before the checkpoint");
  }
}

} // namespace penstock::apps
