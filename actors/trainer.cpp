// The whole run: stretches of training between drains, evaluations, checkpoints, and the summary.
#include "actors/trainer.hpp"

#include "actors/checkpoint.hpp"
#include "actors/digest.hpp"
#include "actors/policy/partition.hpp"
#include "actors/run_plan.hpp"
#include "actors/step_log.hpp"
#include "actors/trace/recorder.hpp"
#include "actors/weights_file.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace penstock::actors {

namespace {

run_summary describe(const run_plan& plan, const model& net) {
  run_summary s;
  s.schedule = plan.options.schedule;
  s.microbatches = plan.options.microbatches;
  s.instruction_set = plan.instruction_set;
  s.library = plan.library;
  s.threads = threads_per_worker(plan.options);
  for (std::size_t i = 0; i < plan.cuts.size(); ++i) {
    const int end = i + 1 < plan.cuts.size() ? plan.cuts[i + 1] : static_cast<int>(net.layers().size());
    stage_report stage;
    stage.layers = layer_range(net, plan.cuts[i], end);
    stage.replicas = plan.options.replicas[i];
    stage.credit = plan.dealing.stages[i].credit;
    stage.recomputes = !plan.options.recompute.empty() && plan.options.recompute[i];
    for (int l = plan.cuts[i]; l < end; ++l)
      for (const auto& p : net.parameters(l))
        stage.weight_bytes += 4 * element_count(p.dims);
    s.stages.push_back(std::move(stage));
  }
  return s;
}

trace_header header_of(const run_plan& plan, const run_summary& s, const std::string& model_name) {
  trace_header h;
  h.model = model_name;
  h.schedule = s.schedule;
  h.microbatches = s.microbatches;
  h.window = plan.options.window;
  h.replicas = plan.options.replicas;
  for (const auto& stage : s.stages) {
    h.credits.push_back(stage.credit);
    h.stage_layers.push_back(stage.layers);
  }
  h.stashes_weights = plan.dealing.stashes_weights;
  h.vertical_sync = plan.options.schedule == "pipedream-vertical-sync";
  h.minibatches = -1;
  return h;
}

class training_run {
public:
  training_run(run_plan plan, const run_inputs& inputs, run_observer& observer, run_control& control);
  run_summary run();

private:
  void load();
  void train_stretches();
  void after_drain(std::int64_t planned_end);
  void evaluate();
  void checkpoint();
  void finish();
  void summarise();
  checkpoint_position position() const;

  run_plan plan_;
  const run_inputs& inputs_;
  run_observer& observer_;
  run_control& control_;
  run_summary summary_;
  std::unique_ptr<pipeline> parts_;
  std::unique_ptr<trace_recorder> trace_;
  step_log steps_;
  run_services services_;
  std::unique_ptr<executor> executor_;
  std::int64_t done_ = 0;          // minibatches, of the whole run
  std::int64_t evaluated_at_ = -1; // steps after which there was an evaluation
  std::int64_t checkpointed_at_ = -1;
};

training_run::training_run(run_plan plan, const run_inputs& inputs, run_observer& observer, run_control& control)
    : plan_(std::move(plan)), inputs_(inputs), observer_(observer), control_(control),
      summary_(describe(plan_, *inputs.net)), parts_(build_pipeline(plan_.options, inputs.net, plan_.cuts)),
      steps_(observer, plan_.options.lr, plan_.options.microbatches, plan_.drains.per_epoch, plan_.drains.total),
      services_{plan_.options, *parts_, inputs_, observer_, control_, steps_} {
  summary_.threads = parts_->threads;
}

checkpoint_position training_run::position() const {
  return {inputs_.model_options, plan_.options.optimizer.name, plan_.options.schedule, done_,
          plan_.options.batch,   inputs_.train->size(),        plan_.options.seed,     summary_.drains};
}

void training_run::load() {
  const auto& o = plan_.options;
  if (o.resume) {
    const auto at = read_checkpoint(*parts_, position(), o.checkpoint);
    done_ = at.step;
    summary_.drains = at.drains;
    checkpointed_at_ = done_;
    observer_.on_note("resumed after step " + std::to_string(done_) + " from " + o.checkpoint.string());
  } else if (!o.weights.empty()) {
    const auto note = read_weights(*parts_, o.weights, o.allow_partial);
    if (!note.empty()) observer_.on_note(note);
  }
}

void training_run::train_stretches() {
  while (done_ < plan_.drains.total && !control_.stop) {
    const auto end = plan_.drains.next(done_);
    const auto segment = static_cast<std::int64_t>(summary_.drains.size());
    done_ += executor_->train(plan_segment(plan_, segment, done_, end - done_));
    summary_.drains.push_back(done_);
    after_drain(end);
  }
}

void training_run::after_drain(std::int64_t planned_end) {
  const bool last = done_ >= plan_.drains.total;
  if (done_ == planned_end && !last && plan_.drains.evaluates_at(done_)) evaluate();
  const bool asked = control_.checkpoint.exchange(false);
  if (asked && plan_.options.checkpoint.empty()) observer_.on_note("no checkpoint folder was given: nothing written");
  if (asked || (!last && plan_.drains.checkpoints_at(done_))) checkpoint();
}

void training_run::evaluate() {
  if (inputs_.test == nullptr) return;
  eval_event event;
  event.metrics = executor_->evaluate(*inputs_.test, plan_.options.eval_batch);
  event.epoch = done_ / plan_.drains.per_epoch;
  event.step = done_;
  summary_.evaluation = event.metrics;
  evaluated_at_ = done_;
  if (plan_.options.stop_on_nonfinite && !std::isfinite(event.metrics.loss_sum))
    throw error("[evaluation] the loss is not finite (" + std::to_string(event.metrics.loss_sum) + ") after " +
                std::to_string(done_) + " steps");
  observer_.on_eval(event);
}

void training_run::checkpoint() {
  if (plan_.options.checkpoint.empty() || plan_.options.eval_only || checkpointed_at_ == done_) return;
  const auto folder = write_checkpoint(*parts_, position(), plan_.options.checkpoint);
  checkpointed_at_ = done_;
  observer_.on_checkpoint(folder, done_);
}

void training_run::finish() {
  if (!control_.stop && plan_.options.eval_every >= 0 && evaluated_at_ != done_) evaluate();
  checkpoint();
  summary_.end = control_.stop ? run_end::interrupted : run_end::finished;
}

void training_run::summarise() {
  summary_.steps = done_;
  summary_.samples_per_s = steps_.samples_per_s();
  summary_.steady_samples_per_s = steps_.steady_samples_per_s();
  for (auto& s : parts_->stages) {
    auto& out = summary_.stages[static_cast<std::size_t>(s.index)];
    out.updates = s.weights->version;
    out.weight_bytes = 0;
    for (const auto& w : s.weights->tensors)
      out.weight_bytes += static_cast<std::int64_t>(w.bytes());
    const auto& times = s.replicas.front().times;
    out.forward_seconds = times.forward.median_seconds();
    out.backward_seconds = times.backward.median_seconds();
    out.update_seconds = times.update.median_seconds();
    for (auto& r : s.replicas) {
      const auto usage = r.memory->memory().usage();
      out.peak_weight_bytes = std::max(out.peak_weight_bytes, usage.peak(memory_use::weights));
      out.peak_memory_bytes = std::max(out.peak_memory_bytes, usage.total_peak_bytes);
    }
  }
  memory_pool pool;
  summary_.weights_sha256 = sha256_of(plain_weights(*parts_, pool));
  named_tensors states;
  for (auto& s : parts_->stages) {
    states.merge(plain_optimizer_state(*parts_, s, pool));
    states.merge(mean_states(s, pool));
  }
  summary_.state_sha256 = sha256_of(states);
}

run_summary training_run::run() {
  const auto begin = std::chrono::steady_clock::now();
  const auto& o = plan_.options;
  load();
  if (!o.trace.empty()) {
    auto header = header_of(plan_, summary_, inputs_.net->name());
    header.first_minibatch = done_;
    trace_ = std::make_unique<trace_recorder>(o.trace, std::move(header));
    services_.trace = trace_.get();
  }
  observer_.on_start(summary_, plan_.drains.total);
  executor_ = o.executor == executor_kind::oracle ? make_oracle_executor(services_) : make_actors_executor(services_);
  if (!o.eval_only) train_stretches();
  finish();
  executor_.reset();
  if (trace_) {
    trace_->close(done_);
    summary_.trace_dropped = trace_->dropped();
  }
  summarise();
  if (!o.save_gradients.empty() && !o.eval_only) save_first_gradients(*parts_, o.save_gradients);
  if (!o.save_weights.empty()) save_weights(*parts_, o.save_weights);
  summary_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::move(summary_);
}

} // namespace

run_summary plan_run(const run_options& options, const run_inputs& inputs) {
  const auto plan = resolve_run(options, inputs);
  plan_segment(plan, 0, 0, std::min<std::int64_t>(plan.drains.next(0), 64)); // the checker's word, on a short run
  return describe(plan, *inputs.net);
}

run_summary train(const run_options& options, const run_inputs& inputs, run_observer& observer, run_control& control) {
  return training_run(resolve_run(options, inputs), inputs, observer, control).run();
}

} // namespace penstock::actors
