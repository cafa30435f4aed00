// Trains a model as plan and options say: the whole run, from initial weights to the summary.
#pragma once

#include "actors/checkpoint/training_record.hpp"
#include "actors/dataset.hpp"
#include "actors/run/plan_change.hpp"
#include "actors/run_control.hpp"
#include "actors/run_options.hpp"
#include "kernels/loss_metrics.hpp"
#include "kernels/model.hpp"
#include "kernels/model_metrics.hpp"
#include "kernels/safetensors.hpp"
#include "kernels/weights_adapter.hpp"
#include "planner/plan/execution_plan.hpp"

#include <functional>
#include <memory>

namespace penstock::actors {

struct step_event {
  std::int64_t step = 0;  ///< 1 for the run's first minibatch
  std::int64_t epoch = 0; ///< 0-based
  std::int64_t total_steps = 0;
  double loss = 0;                ///< mean over the minibatch
  std::vector<shown_value> shown; ///< what the model says of itself: accuracy, perplexity
  float learning_rate = 0;
  double samples_per_s = 0;       ///< over the last few seconds
  std::vector<shown_value> rates; ///< a second, of what else the model's losses count: tokens
};

/// Of a whole data set.
struct evaluation {
  std::int64_t samples = 0;
  double loss = 0; ///< mean
  std::vector<shown_value> shown;
  loss_metrics metrics; ///< sums, by the model's names
};

struct eval_event {
  std::int64_t epoch = 0; ///< epochs done
  std::int64_t step = 0;
  evaluation found;
};

/// What the model's results are for one batch of an evaluation, plain and in the host's memory. Batches come in any
/// order.
struct batch_results {
  std::int64_t batch = 0;
  named_tensors tensors;
};

enum class run_end : std::uint8_t { finished, interrupted };

/// What a run knows of a stage beside its plan.
struct stage_report {
  std::int64_t weight_bytes = 0;      ///< one version; after a run as stored, padding included
  std::int64_t peak_weight_bytes = 0; ///< versions alive at once
  std::int64_t peak_memory_bytes = 0; ///< all uses; largest replica
  std::int64_t updates = 0;
  double forward_seconds = 0;  ///< median, of a micro-batch on one replica
  double backward_seconds = 0; ///< its recomputation included
  double update_seconds = 0;
};

struct run_summary {
  planner::plan_ptr plan; ///< settled: stages, replicas, credits, M, threads
  run_end end = run_end::finished;
  std::int64_t steps = 0;         ///< of the whole run
  std::int64_t resumed_after = 0; ///< steps that were done before this leg
  std::int64_t total_steps = 0;
  double seconds = 0; ///< of this leg, as all that follows
  double samples_per_s = 0;
  double steady_samples_per_s = 0; ///< without the filling and draining of the pipeline
  double step_seconds = 0;         ///< mean, of steady state where there was one: step_log::step_seconds
  std::string weights_sha256;
  std::string state_sha256;
  std::vector<stage_report> stages;
  std::int64_t parameters = 0;
  std::int64_t frozen_parameters = 0;     ///< of them, under `plan`
  std::string freeze;                     ///< describe_freeze: "" where nothing is frozen
  std::vector<std::int64_t> drains;       ///< minibatches done at each drain
  std::vector<taken_change> plan_changes; ///< that took place in this leg; `plan` is the last of them
  std::vector<std::string> changes; ///< what a resumed run does otherwise than the checkpoint's: "--lr 0.1 -> 0.05"
  std::string instruction_set;      ///< what makes bits repeatable, with the plan's threads and the library's version
  std::string compute_library;
  std::optional<actors::evaluation> evaluation; ///< the last one that was complete
  std::int64_t evaluated_after = 0;             ///< steps
  double evaluation_seconds = 0;
  std::int64_t trace_dropped = 0;
  std::string trace_failure; ///< why the trace file is not whole; empty when it is
};

/// Called on a runtime thread, one call at a time, in order.
class run_observer {
public:
  virtual ~run_observer() = default;
  virtual void on_start(const run_summary& plan, std::int64_t total_steps) { (void)plan, (void)total_steps; }
  virtual void on_step(const step_event&) {}
  virtual void on_eval(const eval_event&) {}
  virtual void on_results(const batch_results&) {}
  virtual void on_checkpoint(const std::filesystem::path&, std::int64_t step) { (void)step; }
  virtual void on_note(const std::string& line) { (void)line; } ///< one line for the log
  virtual void on_progress(const part_progress&) {}             ///< when a long part begins, and as it goes on
};

class checkpoint_lock;     // actors/checkpoint/checkpoint_lock.hpp
class layer_actor_factory; // actors/layer_actor.hpp
struct job;                // actors/ranks/job.hpp

struct run_inputs {
  std::shared_ptr<const model> net;
  const dataset* train = nullptr;
  const dataset* test = nullptr; ///< may be null: no evaluation
  std::string model_options;     ///< what a checkpoint must agree with ("lenet image_size=28 classes=10 width=1")
  training_record record;        ///< what else decides the numbers, for a checkpoint ("training data", "--no-augment")
  std::vector<std::shared_ptr<const layer_actor_factory>> layer_actors;
  checkpoint_lock* lock = nullptr;    ///< of the checkpoint folder; null: the run takes it itself
  const job* ranks = nullptr;         ///< the other processes of the run; null: there are none
  std::vector<plan_change> changes{}; ///< of the plan, by ascending step; those of steps that are done are left out
  weights_adapter adapt_weights{};    ///< of --weights, to the model's names; may be empty
  int first_replicas = 0;             ///< R_0 of the run's first plan, in the rate factor; 0: the plan's own
  int column_blocks = 0; ///< of the run's first plan (batching::column_blocks); 0: the checkpoint's, or the plan's own
};

/// What would be run: the settled plan and its weights; checks everything that can be checked without computing. Throws
/// usage_error (exit 2) or penstock::error.
run_summary plan_run(const planner::plan_ptr& plan, const run_options& options, const run_inputs& inputs);

/// Runs the plan (settle_plan makes one) to the end. Throws usage_error for a plan or options that cannot be carried
/// out, penstock::error with the first cause when the run fails, run_stopped when control.stop ends it before it has
/// trained anything. Nothing is half-written. In a job every rank calls it with the same plan and options; events,
/// files and the full summary are rank 0's, what the others return lacks the hashes. When another rank fails, all throw
/// job_ended.
run_summary train(const planner::plan_ptr& plan, const run_options& options, const run_inputs& inputs,
                  run_observer& observer, run_control& control);

} // namespace penstock::actors
