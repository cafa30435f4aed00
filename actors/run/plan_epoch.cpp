// Prepare beside, move, agree; or drop what was prepared.
#include "actors/run/plan_epoch.hpp"

#include "actors/checkpoint/checkpoint.hpp"
#include "actors/ranks/job.hpp"
#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"

#include <set>

namespace penstock::actors {

namespace {

std::unique_ptr<pipeline> build(const resolved_run& plan, const run_inputs& inputs) {
  return build_pipeline(*plan.plan, plan.options, inputs.net, plan.rank);
}

// Weights come from the epoch before.
std::unique_ptr<pipeline> build_empty(const resolved_run& plan, const run_inputs& inputs) {
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

// A byte of every page; the blocks go back to the pool and wait there for what comes.
void touch_memory_to_come(const pipeline& from, const pipeline& to, memory_pool& pool,
                          const std::atomic<bool>& given_up) {
  constexpr std::size_t page = 4096;
  std::set<std::string> here;
  for (const auto& s : from.stages)
    if (s.is_local())
      for (const auto& p : s.layers->parameters())
        here.insert(p.name);
  std::vector<buffer> touched;
  const auto touch = [&](const tensor& t) {
    touched.push_back(pool.allocate(t.bytes(), memory_use::scratch));
    for (std::size_t at = 0; at < t.bytes() && !given_up; at += page)
      touched.back().data()[at] = std::byte{};
  };
  for (const auto& s : to.stages)
    for (std::size_t i = 0; i < s.owned.optimizer_states.size(); ++i) {
      if (here.contains(s.layers->parameters()[i].name)) continue;
      touch(s.owned.newest->tensors[i]);
      for (const auto& state : s.owned.optimizer_states[i].tensors)
        touch(state);
    }
  touched.clear();
  pool.reset_peak();
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

plan_epoch::plan_epoch(resolved_run plan, const run_inputs& inputs, run_observer& observer, run_control& control,
                       step_log& steps)
    : plan_(std::move(plan)),
      built_(build(plan_, inputs)), services_{*plan_.plan, plan_.options, *built_, inputs, observer, control, steps} {}

plan_epoch::plan_epoch(next_tag, resolved_run plan, const plan_epoch& before, const run_inputs& inputs)
    : plan_(std::move(plan)), built_(build_empty(plan_, inputs)), services_{*plan_.plan,
                                                                            plan_.options,
                                                                            *built_,
                                                                            inputs,
                                                                            before.services_.observer,
                                                                            before.services_.control,
                                                                            before.services_.steps} {
  services_.plan_epoch = before.number() + 1;
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

// Of this rank's first stage: what comes in is counted where it will stay. Null where nothing stays here.
memory_pool* plan_epoch::first_memory() {
  for (auto& s : built_->stages)
    if (s.is_local()) return s.first_local().memory->host_memory();
  return nullptr;
}

std::unique_ptr<plan_epoch> plan_epoch::prepare(const planner::plan_ptr& to, const run_inputs& inputs,
                                                const std::atomic<bool>& given_up) const {
  std::unique_ptr<plan_epoch> next(new plan_epoch(next_tag{}, resolve_change(plan_, to, inputs), *this, inputs));
  if (auto* pool = next->first_memory())
    if (inputs.ranks != nullptr) touch_memory_to_come(*built_, *next->built_, *pool, given_up);
  return next;
}

std::unique_ptr<plan_epoch> plan_epoch::change(const preparer& prepared, const run_inputs& inputs,
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
  auto fault = fault_of([&] {
    next = prepared();
    next->services_.evaluations = evaluations();
  });
  if (given_up(agree(inputs.ranks, round + " is built", fault))) return nullptr;
  // From here on every rank waits for what others send: a rank that cannot take its part ends the job.
  memory_pool own_pool;
  auto* const pool = next->first_memory();
  auto learnt = exchange->move(*built_, executor_->collect(copy_of::as_stored), *next->built_,
                               pool == nullptr ? own_pool : *pool);
  fault = fault_of([&] {
    load_snapshots(*next->built_, learnt, "plan epoch " + std::to_string(next->number()));
    for (auto& s : next->built_->stages)
      if (s.is_local()) s.owned.newest->version = 0; // counted anew in each epoch
    learnt.clear();
    next->start(trace);
  });
  if (given_up(agree(inputs.ranks, round + " is ready", fault))) return nullptr;
  return next;
}

} // namespace penstock::actors
