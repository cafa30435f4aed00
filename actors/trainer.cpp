// The whole run: stretches of training between drains, evaluations, checkpoints, and the summary.
#include "actors/trainer.hpp"

#include "actors/checkpoint/checkpoint_writer.hpp"
#include "actors/checkpoint/digest.hpp"
#include "actors/checkpoint/weights_file.hpp"
#include "actors/policy/freezing.hpp"
#include "actors/ranks/serial_observer.hpp"
#include "actors/ranks/tell_others.hpp"
#include "actors/ranks/trace_files.hpp"
#include "actors/run/averaging_start.hpp"
#include "actors/run/column_needs.hpp"
#include "actors/run/plan_agenda.hpp"
#include "actors/run/plan_preparation.hpp"
#include "actors/run/resolved_run.hpp"
#include "actors/run/step_log.hpp"
#include "actors/run/summarise.hpp"
#include "actors/stage/as_trained.hpp"
#include "actors/stage/places.hpp"
#include "kernels/check.hpp"
#include "kernels/finite.hpp"
#include "kernels/little_memory.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

namespace penstock::actors {

namespace {

trace_header header_of(const resolved_run& plan, const std::string& model_name) {
  trace_header h;
  h.model = model_name;
  h.plan = *plan.plan;
  h.stashes_weights = plan.dealing.stashes_weights;
  h.vertical_sync = plan.plan->schedule == "pipedream-vertical-sync";
  h.minibatches = -1;
  return h;
}

class training_run {
public:
  /// `lock`: of the checkpoint folder, where this rank writes one.
  training_run(resolved_run plan, const run_inputs& inputs, run_observer& observer, run_control& control,
               checkpoint_lock* lock);
  ~training_run();
  training_run(const training_run&) = delete;
  training_run& operator=(const training_run&) = delete;
  run_summary run();

private:
  int load();
  void take_position(const checkpoint_position& at);
  std::shared_ptr<const named_tensors> carried_anew();
  void say_that_drains_move(bool moved);
  void name_changes(const checkpoint_position& before);
  void note_freeze(int before);
  void train_stretches();
  void prepare(const plan_change& change);
  void change_plan();
  void after_drain(std::int64_t planned_end);
  void evaluate();
  void checkpoint();
  void finish();
  struct results {
    std::unique_ptr<memory_pool> pool = std::make_unique<memory_pool>();
    std::vector<stage_snapshot> stages; // on rank 0
    named_tensors first_gradients;      // on rank 0, where they are asked for
  };
  results gather();
  void summarise(const results& all);
  void agree();
  void begin_training();
  void doing(const std::string& what, run_part part = run_part::saving);
  bool is_first() const { return plan_.rank == 0; }
  checkpoint_position position() const;

  resolved_run plan_; // of the plan epoch at hand
  const run_inputs& inputs_;
  serial_observer observer_;
  run_control& control_;
  run_summary summary_;
  std::shared_ptr<bundle_transfers> transfers_; // in a job; the failure handler may run while this run ends
  std::unique_ptr<checkpoint_writer> writer_;   // on rank 0
  std::unique_ptr<trace_files> trace_;
  step_log steps_;
  std::unique_ptr<plan_epoch> now_;
  std::unique_ptr<plan_preparation> next_; // while a stretch runs that ends in a change
  plan_agenda agenda_;
  averaging_start averaging_;
  std::int64_t done_ = 0;          // minibatches, of the whole run
  std::int64_t resumed_ = 0;       // of them, done by a leg before this one
  std::int64_t evaluated_at_ = -1; // steps after which there was an evaluation
  std::int64_t checkpointed_at_ = -1;
  std::int64_t stretch_begun_ = -1; // after so many minibatches; none under this plan yet
  bool told_of_moves_ = false;
  bool has_frozen_ = false; // layers, under this plan or one before
  // What all ranks agree on: a signal may reach only one of them.
  bool stopping_ = false;
  bool checkpoint_asked_ = false;
  std::int64_t agreements_ = 0;
};

training_run::training_run(resolved_run plan, const run_inputs& inputs, run_observer& observer, run_control& control,
                           checkpoint_lock* lock)
    : plan_(std::move(plan)), inputs_(inputs), observer_(observer, plan_.rank != 0), control_(control),
      summary_(describe_plan(plan_, *inputs.net)),
      steps_(as_trained(inputs.net, plan_.options), observer_, plan_.options.lr, plan_.plan->microbatches,
             plan_.drains.per_epoch, plan_.drains.total),
      agenda_(inputs.changes, plan_.options.column_blocks), averaging_(plan_.options.asgd_patience) {
  steps_.set_rates([data = plan_.data](std::int64_t m) { return data->rate(m); });
  control_.part = run_part::nothing_to_lose;
  control_.has_folder = !plan_.options.checkpoint.empty() && !plan_.options.eval_only;
  doing("building the weights", run_part::nothing_to_lose);
  now_ = std::make_unique<plan_epoch>(plan_, inputs_, observer_, control_, steps_);
  steps_.set_tellers(metrics_tellers(now_->built()));
  if (inputs.ranks == nullptr) give_up_if_asked(control_); // ranks of a job leave together, begin_training()
  if (inputs.ranks != nullptr) {
    transfers_ = std::make_shared<bundle_transfers>(*inputs.ranks);
    inputs.ranks->control.on_failure(
        [all = transfers_](const transport::job_failure& cause) { all->cancel(cause.text); });
  }
  if (lock != nullptr)
    writer_ = std::make_unique<checkpoint_writer>(
        *lock, [this](const auto& folder, std::int64_t step) { observer_.on_checkpoint(folder, step); },
        [this] { control_.stop = true; }); // the next drain tells why
}

training_run::~training_run() {
  control_.plan_wishes.close("the run has ended");
  if (inputs_.ranks != nullptr) inputs_.ranks->control.on_failure({});
}

// Before anything was trained there is nothing to lose, whatever is read or gathered.
void training_run::doing(const std::string& what, run_part part) {
  control_.part = part;
  observer_.on_progress({.what = what});
  if (inputs_.ranks != nullptr) inputs_.ranks->control.doing(what);
}

void training_run::agree() {
  bool stop = control_.stop;
  bool asked = control_.checkpoint.exchange(false);
  if (const auto* ranks = inputs_.ranks) {
    const std::string flags{stop ? '1' : '0', asked ? '1' : '0'};
    const auto name = "wishes " + std::to_string(agreements_++);
    for (const auto& of_one : ranks->control.all_gather(name, flags, ranks->patience)) {
      stop |= of_one.at(0) == '1';
      asked |= of_one.at(1) == '1';
    }
  }
  stopping_ |= stop;
  checkpoint_asked_ |= asked;
}

checkpoint_position training_run::position() const {
  const auto& o = plan_.options;
  return {inputs_.model_options,
          o.optimizer.name,
          plan_.plan->schedule,
          done_,
          o.batch,
          inputs_.train->size(),
          o.seed,
          summary_.drains,
          record_of(plan_, inputs_),
          learning_rate(o.lr, std::max<std::int64_t>(done_ - 1, 0)),
          o.last == last_batch::drop,
          averaging_.seen(),
          has_frozen_};
}

// What was learnt before; the depth to which that was frozen.
int training_run::load() {
  const auto& o = plan_.options;
  int frozen_until = o.resume ? 0 : plan_.plan->frozen_until;
  memory_pool pool;
  std::vector<stage_snapshot> all;
  if (o.resume) {
    doing("reading a checkpoint", run_part::nothing_to_lose);
    saved_run saved;
    if (is_first()) saved = read_checkpoint(position(), *inputs_.net, o.checkpoint, pool);
    if (o.stop_on_nonfinite)
      for (const auto& stage : saved.stages)
        for (const auto& [name, t] : stage.tensors)
          require_finite(t, "[checkpoint] " + o.checkpoint.string() + ": tensor " + name);
    take_position(saved.at);
    frozen_until = frozen_until_of(saved.stages, *inputs_.net);
    load_snapshots(now_->built(), spread_snapshots(std::move(saved.stages), now_->built(), transfers_.get(), pool),
                   o.checkpoint);
    require_carried(plan_, now_->built(), done_);
    observer_.on_note("resumed after step " + std::to_string(done_) + " from " + o.checkpoint.string());
    if (is_first()) name_changes(saved.at);
  } else if (!o.weights.empty()) {
    doing("reading a weights file", run_part::nothing_to_lose);
    weights_contents given;
    if (is_first())
      given = read_weights(inputs_.net, {o.weights, o.weights_prefix, o.allow_partial, inputs_.adapt_weights}, pool);
    if (!given.note.empty()) observer_.on_note(given.note);
    load_partial(now_->built(), spread_snapshots({std::move(given.whole)}, now_->built(), transfers_.get(), pool));
  }
  return frozen_until;
}

// A stretch that begins elsewhere in the round of blocks deals minibatches anew.
std::shared_ptr<const named_tensors> training_run::carried_anew() {
  const auto before = std::exchange(stretch_begun_, done_);
  if (before < 0 || !moves_columns(plan_, done_ - before)) return nullptr;
  return gather_carried(now_->run(), now_->built(), transfers_.get());
}

// Once in a run.
void training_run::say_that_drains_move(bool moved) {
  if (!moved || plan_.drains.multiple == 1 || std::exchange(told_of_moves_, true)) return;
  observer_.on_note("drains are moved up to the next multiple of " + std::to_string(plan_.options.column_blocks) +
                    " minibatches, so that each batch column keeps to one replica of every stage");
}

// Of a checkpoint that rank 0 has read.
void training_run::take_position(const checkpoint_position& at) {
  done_ = at.step;
  summary_.drains = at.drains;
  if (const auto* ranks = inputs_.ranks) {
    std::string text = std::to_string(done_);
    for (const auto drain : summary_.drains)
      text += " " + std::to_string(drain);
    std::istringstream numbers(ranks->control.broadcast("position", text, ranks->patience));
    numbers >> done_;
    summary_.drains.assign(std::istream_iterator<std::int64_t>(numbers), {});
  }
  averaging_.resume(at.evaluations, inputs_.ranks);
  has_frozen_ = at.has_frozen;
  checkpointed_at_ = resumed_ = done_;
  agenda_.forget_until(done_);
}

void training_run::note_freeze(int before) {
  const auto& net = *inputs_.net;
  const int now = plan_.plan->frozen_until;
  has_frozen_ = has_frozen_ || now > 0;
  const auto line = describe_freeze_change(net, before, now);
  if (!line.empty()) observer_.on_note(line);
}

// Up to here any rank may have left; from here on all end at one minibatch.
void training_run::begin_training() {
  doing("waiting for the other ranks", run_part::nothing_to_lose);
  agree();
  if (stopping_) throw run_stopped();
}

// A resumed run may be told to go on otherwise, but not without a word.
void training_run::name_changes(const checkpoint_position& before) {
  const auto now = position();
  summary_.changes = differences(before.options, now.options);
  const auto is_of_rate = [](const std::string& line) { return line.starts_with("--lr"); };
  if (done_ > 0 && std::any_of(summary_.changes.begin(), summary_.changes.end(), is_of_rate))
    summary_.changes.push_back(rate_change(before.learning_rate, done_, learning_rate(plan_.options.lr, done_)));
  for (const auto& line : summary_.changes)
    observer_.on_note("changed since the checkpoint: " + line);
  if (done_ >= plan_.drains.total && !plan_.options.eval_only)
    observer_.on_note("nothing to train: the checkpoint is of step " + std::to_string(done_) +
                      ", and this run ends after step " + std::to_string(plan_.drains.total));
}

void training_run::train_stretches() {
  while (done_ < plan_.drains.total && !stopping_) {
    const auto end = agenda_.next_drain(plan_.drains.next(done_));
    const auto stretch = static_cast<std::int64_t>(summary_.drains.size());
    doing("training", run_part::training);
    if (agenda_.has_one_after(end)) prepare(agenda_.first());
    plan_.average_from = averaging_.seen().switched_at; // of all plan epochs
    done_ += now_->run().train(plan_stretch(plan_, stretch, done_, end - done_, carried_anew()));
    summary_.drains.push_back(done_);
    if (plan_.options.stop_on_nonfinite) now_->run().require_finite("after " + std::to_string(done_) + " steps");
    if (done_ != end && !plan_.dealing.synchronous && plan_.dealing.source_credit() > 1)
      observer_.on_note("the pipeline drained after step " + std::to_string(done_) + ", on request: under " +
                        plan_.plan->schedule + " the weights are from here on those of a run that drains there");
    say_that_drains_move(plan_.drains.moves_checkpoints() || agenda_.has_moved() || (done_ != end && !control_.stop));
    agree();
    after_drain(end);
    agenda_.take_wishes(control_.plan_wishes, done_, plan_.drains.total, *inputs_.net, inputs_.ranks);
    while (agenda_.has_one_after(done_) && !stopping_)
      change_plan(); // several, where they were moved up to one drain
  }
}

void training_run::prepare(const plan_change& change) {
  if (!next_ || !next_->is_of(change)) next_ = std::make_unique<plan_preparation>(change, *now_, inputs_);
}

// Until all ranks are ready the plan at hand can go on, and does where one is not.
void training_run::change_plan() {
  const auto drained = std::chrono::steady_clock::now();
  const auto change = agenda_.take();
  doing("changing the plan", run_part::training);
  const int frozen_before = plan_.plan->frozen_until;
  const auto exchange = std::make_shared<plan_exchange>(inputs_.ranks, now_->number() + 1);
  if (inputs_.ranks != nullptr) {
    inputs_.ranks->control.on_failure([all = transfers_, exchange](const transport::job_failure& cause) {
      all->cancel(cause.text);
      exchange->cancel(cause.text);
    });
    if (const auto cause = inputs_.ranks->control.failure()) throw job_ended(*cause);
  }
  const auto after = " after step " + std::to_string(done_);
  prepare(change); // where it was not while the stretch ran
  auto next =
      now_->change([&] { return next_->take(); }, inputs_, exchange, trace_ ? &trace_->recorder() : nullptr,
                   [&](const std::string& why) {
                     observer_.on_note("the plan was not changed" + after + ", and the one before goes on: " + why);
                     agenda_.answer(why);
                   });
  next_.reset();
  if (!next) return;
  now_ = std::move(next);
  plan_ = now_->plan();
  stretch_begun_ = -1;
  const auto seen = describe_plan(plan_, *inputs_.net);
  summary_.plan = seen.plan;
  summary_.stages = seen.stages;
  summary_.frozen_parameters = seen.frozen_parameters;
  summary_.freeze = seen.freeze;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - drained;
  summary_.plan_changes.push_back({{done_, plan_.plan}, taken.count(), exchange->bytes_moved()});
  if (trace_)
    trace_->recorder().change_plan({.first_stretch = static_cast<std::int64_t>(summary_.drains.size()),
                                    .first_minibatch = done_,
                                    .first_evaluation = -1 - now_->evaluations(),
                                    .plan = *plan_.plan});
  steps_.set_microbatches(plan_.plan->microbatches);
  steps_.set_tellers(metrics_tellers(now_->built()));
  agenda_.answer("");
  observer_.on_note("the plan changed" + after + ": " + describe_stages(*plan_.plan) + ", " + plan_.plan->schedule);
  note_freeze(frozen_before);
}

void training_run::after_drain(std::int64_t planned_end) {
  const bool last = done_ >= plan_.drains.total;
  if (done_ == planned_end && !last && plan_.drains.evaluates_at(done_)) evaluate();
  const bool asked = std::exchange(checkpoint_asked_, false);
  if (asked && plan_.options.checkpoint.empty()) observer_.on_note("no checkpoint folder was given: nothing written");
  if (asked || (!last && plan_.drains.checkpoints_at(done_))) checkpoint();
}

void training_run::evaluate() {
  if (inputs_.test == nullptr) return;
  const auto begin = std::chrono::steady_clock::now();
  doing("evaluating", plan_.options.eval_only ? run_part::nothing_to_lose : run_part::evaluating);
  const auto states = shared_mean_states(now_->built(), now_->run().collect(copy_of::statistics), transfers_.get());
  const auto metrics = now_->evaluate(*inputs_.test, plan_.options.eval_batch, states);
  agree();
  if (!metrics) {
    check(stopping_, "an evaluation was given up though nobody asked for that");
    return;
  }
  eval_event event;
  event.found = {metrics->samples, mean_loss(*inputs_.net, *metrics, phase::evaluation),
                 shown_values(*inputs_.net, *metrics, phase::evaluation), *metrics};
  summary_.evaluation_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  summary_.evaluated_after = done_;
  event.epoch = done_ / plan_.drains.per_epoch;
  event.step = done_;
  summary_.evaluation = event.found;
  evaluated_at_ = done_;
  if (plan_.options.stop_on_nonfinite && !std::isfinite(event.found.loss))
    throw error("[evaluation] the loss is not finite (" + std::to_string(event.found.loss) + ") after " +
                std::to_string(done_) + " steps");
  observer_.on_eval(event);
  const auto averages = averaging_.judge(event.found.loss, done_, plan_.drains);
  if (!averages.empty()) observer_.on_note(averages);
}

void training_run::checkpoint() {
  if (plan_.options.checkpoint.empty() || plan_.options.eval_only || checkpointed_at_ == done_) return;
  doing("gathering a checkpoint of step " + std::to_string(done_));
  memory_pool pool;
  auto all = collect_snapshots(now_->built(), now_->run().collect(copy_of::everything), transfers_.get(), pool);
  checkpointed_at_ = done_;
  if (writer_) writer_->start(std::move(all), position());
}

void training_run::finish() {
  const bool is_wanted = plan_.options.eval_only || plan_.options.eval_every >= 0;
  if (!stopping_ && is_wanted && evaluated_at_ != done_) evaluate();
  checkpoint();
  if (writer_) {
    doing("writing a checkpoint");
    writer_->finish();
  }
  summary_.end = stopping_ ? run_end::interrupted : run_end::finished;
}

// While the owners are still there.
training_run::results training_run::gather() {
  doing("gathering the weights");
  report_stages(now_->built(), now_->run().measure(), inputs_.ranks, summary_.stages);
  results all;
  const auto& o = plan_.options;
  all.stages = collect_snapshots(now_->built(), now_->run().collect(copy_of::everything), transfers_.get(), *all.pool);
  if (!o.save_gradients.empty() && !o.eval_only)
    all.first_gradients = collect_first_gradients(now_->built(), now_->run().collect(copy_of::first_gradients),
                                                  transfers_.get(), *all.pool);
  return all;
}

void training_run::summarise(const results& all) {
  summary_.steps = done_;
  summary_.resumed_after = resumed_;
  summary_.total_steps = plan_.drains.total;
  summary_.samples_per_s = steps_.samples_per_s();
  summary_.steady_samples_per_s = steps_.steady_samples_per_s();
  summary_.step_seconds = steps_.step_seconds();
  if (!is_first()) return;
  const auto& o = plan_.options;
  memory_pool pool;
  doing("hashing the weights");
  summary_.weights_sha256 = sha256_of(weights_of(all.stages));
  auto states = optimizer_state_of(all.stages);
  states.merge(states_of(all.stages, inputs_.net, pool));
  states.merge(carried_of(all.stages, *inputs_.net, pool));
  summary_.state_sha256 = sha256_of(states);
  const bool keeps_gradients = !o.save_gradients.empty() && !o.eval_only;
  if (keeps_gradients || !o.save_weights.empty()) doing("writing the weights");
  if (keeps_gradients) write_safetensors(o.save_gradients, all.first_gradients, {{"format", "pt"}});
  if (!o.save_weights.empty()) save_weights(all.stages, inputs_.net, *make_optimizer(o.optimizer), o.save_weights);
}

run_summary training_run::run() {
  const auto begin = std::chrono::steady_clock::now();
  const auto& o = plan_.options;
  note_freeze(load());
  if (!o.trace.empty()) {
    auto header = header_of(plan_, inputs_.net->name());
    header.first_minibatch = done_;
    trace_ = std::make_unique<trace_files>(o.trace, std::move(header), inputs_.ranks);
  }
  now_->start(trace_ ? &trace_->recorder() : nullptr);
  if (o.resume && o.stop_on_nonfinite) now_->run().require_finite("as " + o.checkpoint.string() + " has it");
  observer_.on_start(summary_, plan_.drains.total);
  begin_training();
  if (!o.eval_only && resumed_ > 0 && averaging_.lacks(done_, plan_.drains)) evaluate();
  if (!o.eval_only) train_stretches();
  finish();
  if (o.eval_only && !summary_.evaluation && stopping_) throw run_stopped();
  const auto all = gather();
  now_->stop();
  if (trace_) {
    doing("finishing the trace");
    const auto closed = trace_->close(done_, transfers_.get());
    summary_.trace_dropped = closed.dropped;
    summary_.trace_failure = closed.failure;
  }
  summarise(all);
  summary_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::move(summary_);
}

} // namespace

run_summary plan_run(const planner::plan_ptr& plan, const run_options& options, const run_inputs& inputs) {
  const auto resolved = resolve_run(plan, options, inputs);
  plan_stretch(resolved, 0, 0,
               std::min<std::int64_t>(resolved.drains.next(0), 64)); // the checker's word, on a short run
  return describe_plan(resolved, *inputs.net);
}

run_summary train(const planner::plan_ptr& plan, const run_options& options, const run_inputs& inputs,
                  run_observer& observer, run_control& control) {
  std::optional<checkpoint_lock> own_lock;
  std::optional<training_run> run; // still there when the others are told: its end may take long
  try {
    auto* lock = inputs.lock;
    const bool writes = !options.checkpoint.empty() && !options.eval_only;
    if (writes && lock == nullptr && (inputs.ranks == nullptr || inputs.ranks->rank() == 0))
      lock = &own_lock.emplace(options.checkpoint);
    run.emplace(resolve_run(plan, options, inputs), inputs, observer, control, writes ? lock : nullptr);
    return run->run();
  } catch (const job_ended&) {
    throw;
  } catch (const run_stopped&) {
    throw;
  } catch (const usage_error& e) {
    if (inputs.ranks != nullptr) inputs.ranks->control.fail(e.what());
    throw;
  } catch (const std::exception& e) {
    if (inputs.ranks != nullptr)
      if (const auto cause = tell_others(*inputs.ranks, described(e))) throw job_ended(*cause);
    throw;
  }
}

} // namespace penstock::actors
