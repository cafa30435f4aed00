// A run is a sequence of plan epochs: each has its plan, its parts and its executor; the next one is made beside it.
#pragma once

#include "actors/ranks/plan_exchange.hpp"
#include "actors/run/resolved_run.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

namespace penstock::actors {

/// One plan of a run and what was built for it. Stays where it is: its executor works with its parts.
class plan_epoch {
public:
  /// Devices, streams and initial weights of the run's first plan.
  plan_epoch(resolved_run plan, const run_inputs& inputs, run_observer& observer, run_control& control,
             step_log& steps);
  plan_epoch(const plan_epoch&) = delete;
  plan_epoch& operator=(const plan_epoch&) = delete;

  /// Moves what was built and loaded to its owners; from here on only they have it.
  void start(trace_recorder* trace);
  std::int64_t number() const { return services_.plan_epoch; }
  const resolved_run& plan() const { return plan_; }
  pipeline& built() { return *built_; }
  executor& run() { return *executor_; }
  /// As executor::evaluate, and counted.
  std::optional<loss_metrics> evaluate(const dataset& data, std::int64_t batch,
                                       const std::vector<std::vector<tensor>>& states);
  /// Of the run, under the plans before too.
  std::int64_t evaluations() const { return services_.evaluations; }
  void stop() { executor_.reset(); }

  /// What can be made of the epoch behind this one while this one trains, on any thread: its parts, and touched memory
  /// for what other ranks will send, since memory that is touched for the first time may take longer than the transfer.
  /// Touches no more once it is given up.
  std::unique_ptr<plan_epoch> prepare(const planner::plan_ptr& to, const run_inputs& inputs,
                                      const std::atomic<bool>& given_up) const;

  using preparer = std::function<std::unique_ptr<plan_epoch>()>;
  /// The epoch behind this one, ready to train: what `prepared` gives, with what this one has learnt moved from owner
  /// to owner by global name. At a drain. Null, with the reason told to `refused`, when a rank could not prepare it;
  /// then this one goes on. Ranks that have a job do this together. Throws job_ended, and penstock::error for what
  /// leaves a rank without an answer.
  std::unique_ptr<plan_epoch> change(const preparer& prepared, const run_inputs& inputs,
                                     std::shared_ptr<plan_exchange> exchange, trace_recorder* trace,
                                     const std::function<void(const std::string&)>& refused);

private:
  struct next_tag {};
  plan_epoch(next_tag, resolved_run plan, const plan_epoch& before, const run_inputs& inputs);
  memory_pool* first_memory();

  resolved_run plan_;
  std::unique_ptr<pipeline> built_;
  run_services services_;
  std::unique_ptr<executor> executor_;
};

} // namespace penstock::actors
