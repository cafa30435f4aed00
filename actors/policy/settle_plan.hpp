// From what a person says of a pipeline to the plan that runs: every default is resolved here and nowhere else.
#pragma once

#include "actors/policy/placement.hpp"
#include "kernels/model.hpp"
#include "planner/plan/execution_plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::actors {

/// A pipeline as it is asked for, before the model and the processes are known. What is left out has a default.
struct pipeline_request {
  std::string schedule = "pipedream";
  std::vector<int> replicas{1}; ///< one entry per stage, or per worker position where each hosts several chunks
  int microbatches = 0;         ///< 0: the schedule's default
  planner::in_flight_spec in_flight{};
  std::vector<std::int64_t> update_lag{}; ///< one per stage, or one for all; empty: none
  int window = 0;
  int chunks = 0;                ///< stages of each worker position; 0: the schedule's own, 2 of interleaved
  int threads = 0;               ///< compute threads per worker; 0: cores / workers, at least 1
  std::vector<int> cuts{};       ///< first layer of stages 1, 2, ...; empty: balanced by parameters and flops
  std::vector<bool> recompute{}; ///< per stage; empty: none
  int frozen_until = 0;          ///< execution_plan::frozen_until
  std::int64_t ahead = 0;        ///< execution_plan::ahead
  std::vector<std::vector<int>>
      ranks{}; ///< by entry of `replicas` and replica: which process hosts it; empty: in order
};

int chunks_of(const pipeline_request& request);
/// What the schedule generator is asked for.
planner::schedule_request schedule_request_of(const pipeline_request& request, std::int64_t minibatches);

/// Who settles: a process of a job, or the only one.
struct job_place {
  int processes = 1;
  int rank = 0;
};

/// The request's plan for the model, with cuts, M and credits; ranks as given, threads as given. Throws usage_error,
/// one line, for what cannot be.
planner::execution_plan draft_plan(const pipeline_request& request, const model& net);

/// The plan with nothing left open: M and credits as the schedule has them, ranks as given, else by the devices'
/// numbers
/// ("cpu:1"), else in order; compute threads, where the plan does not say, are the cores that this process may use
/// shared out among the workers that it hosts (ranks that must agree on them agree beforehand). A settled plan comes
/// back as it is. Throws usage_error, one line, where plan, model and processes do not fit.
planner::plan_ptr settle_plan(planner::execution_plan p, const model& net, job_place where = {});
/// The same of what draft_plan makes.
planner::plan_ptr settle_request(const pipeline_request& request, const model& net, job_place where = {});

/// The settled plan's ranks.
placement placement_of(const planner::execution_plan& settled);

/// Workers of a settled plan on a rank.
int workers_on(const planner::execution_plan& settled, int rank);

/// First layer of each stage (starts with 0). Throws usage_error where the stages are not the model's layers.
std::vector<int> first_layers_of(const planner::execution_plan& p, const model& net);

/// R_0 of the rate factor, where the run begins with that plan: replicas of its first stage that is not wholly frozen.
int rate_replicas_of(const planner::execution_plan& p);

/// The plan as a request, for whoever has to change it: with its cuts and its credits, if it names them.
pipeline_request as_request(const planner::execution_plan& p, const model& net);

/// Names in the model's order.
std::vector<std::string> layer_names(const model& net);
/// Where the layer of that name stands among them; their number where there is none.
int layer_index(const std::string& name, const model& net);

} // namespace penstock::actors
