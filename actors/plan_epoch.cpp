// Prepare beside, move, agree; or drop what was prepared.
#include "actors/plan_epoch.hpp"

#include "actors/checkpoint.hpp"
#include "actors/ranks/job.hpp"
#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"

namespace penstock::actors {

namespace {

std::unique_ptr<pipeline> build(const run_plan& plan, const run_inputs& inputs) {
  return build_pipeline(*plan.plan, plan.options, inputs.net, plan.rank);
}

// Weights come from the epoch before.
std::unique_ptr<pipeline> build_empty(const run_plan& plan, const run_inputs& inputs) {
  auto options = plan.options;
  options.draws_weights = false;
  return build_pipeline(*plan.plan, options, inputs.net, plan.rank);
}

// What went wrong on any rank, "" where nothing did on all: the same answer everywhere.
std::string agree(const job* ranks, const std::string& round, const std::string& fault) {
  if (ranks == nullptr) return fault;
  std::string first;
  int rank = 0;
  for (const auto& of_one : ranks->control.all_gather(round, fault, ranks->patience)) {
    if (first.empty() && !of_one.empty()) first = "rank " + std::to_string(rank) + ": " + of_one;
    ++rank;
  }
  return first;
}

// What it throws, as a text: but for the end of the job, a fault is no reason to end the run.
template <class Work>
std::string fault_of(Work work) {
  try {
    work();
    return "";
  } catch (const job_ended&) {
    throw;
  } catch (const std::exception& e) {
    return described(e);
  }
}

} // namespace

plan_epoch::plan_epoch(run_plan plan, const run_inputs& inputs, run_observer& observer, run_control& control,
                       step_log& steps)
    : plan_(std::move(plan)),
      parts_(build(plan_, inputs)), services_{*plan_.plan, plan_.options, *parts_, inputs, observer, control, steps} {}

plan_epoch::plan_epoch(next_tag, run_plan plan, const plan_epoch& before, const run_inputs& inputs)
    : plan_(std::move(plan)), parts_(build_empty(plan_, inputs)), services_{*plan_.plan,
                                                                            plan_.options,
                                                                            *parts_,
                                                                            inputs,
                                                                            before.services_.observer,
                                                                            before.services_.control,
                                                                            before.services_.steps} {
  services_.plan_epoch = before.number() + 1;
  services_.evaluations = before.evaluations();
}

void plan_epoch::start(trace_recorder* trace) {
  services_.trace = trace;
  executor_ = plan_.options.executor == executor_kind::oracle ? make_oracle_executor(services_)
                                                              : make_actors_executor(services_);
}

std::optional<loss_metrics> plan_epoch::evaluate(const dataset& data, std::int64_t batch,
                                                 const std::vector<std::vector<tensor>>& states) {
  ++services_.evaluations;
  return executor_->evaluate(data, batch, states);
}

std::unique_ptr<plan_epoch> plan_epoch::change(const planner::plan_ptr& to, const run_inputs& inputs,
                                               std::shared_ptr<plan_exchange> exchange, trace_recorder* trace,
                                               const std::function<void(const std::string&)>& refused) {
  const auto round = "plan epoch " + std::to_string(number() + 1);
  std::unique_ptr<plan_epoch> next;
  const auto given_up = [&](const std::string& fault) {
    if (fault.empty()) return false;
    refused(fault);
    next.reset();
    return true;
  };
  auto fault =
      fault_of([&] { next.reset(new plan_epoch(next_tag{}, resolve_change(plan_, to, inputs), *this, inputs)); });
  if (given_up(agree(inputs.ranks, round + " is built", fault))) return nullptr;
  // From here on every rank waits for what others send: a rank that cannot take its part ends the job.
  memory_pool own_pool;
  memory_pool* pool = &own_pool; // counted where it will stay, if anything stays here
  for (auto& s : next->parts_->stages)
    if (s.is_local() && pool == &own_pool) pool = &s.update_memory();
  auto learnt = exchange->move(*parts_, executor_->collect(copy_of::as_stored), *next->parts_, *pool);
  fault = fault_of([&] {
    load_snapshots(*next->parts_, learnt, "plan epoch " + std::to_string(next->number()));
    for (auto& s : next->parts_->stages)
      if (s.is_local()) s.owned.newest->version = 0; // counted anew in each epoch
    learnt.clear();
    next->start(trace);
  });
  if (given_up(agree(inputs.ranks, round + " is ready", fault))) return nullptr;
  return next;
}

} // namespace penstock::actors
