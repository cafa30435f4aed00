// What a stage replica does with a message, and what its schedule lets it do next.
#include "actors/core/stage_core.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::actors {

std::string name_of(const stage_place& place) {
  auto name = "stage " + std::to_string(place.stage);
  if (place.replicas > 1) name += " replica " + std::to_string(place.replica);
  return name;
}

stage_core::stage_core(stage_place place, std::vector<tensor> states)
    : place_(std::move(place)), who_(name_of(place_)),
      states_(std::make_shared<std::vector<tensor>>(std::move(states))) {}

// -- what comes in -------------------------------------------------------------

void stage_core::check_key(const message_key& k) const {
  if (k.plan_epoch == place_.plan_epoch && k.stretch == stretch_) return;
  throw error("[message] a message of plan epoch " + std::to_string(k.plan_epoch) + ", stretch " +
              std::to_string(k.stretch) + " came; this is plan epoch " + std::to_string(place_.plan_epoch) +
              ", stretch " + std::to_string(stretch_));
}

template <class Message>
stage_effects stage_core::put(keyed_inbox<Message>& inbox, Message m, const char* what) {
  check_key(m.key);
  inbox.put(std::move(m), bound(), what);
  stage_effects out;
  pump(out);
  return out;
}

stage_effects stage_core::on(activation_msg m) {
  return put(activations_, std::move(m), "activation");
}
stage_effects stage_core::on(gradient_msg m) {
  return put(gradients_in_, std::move(m), "gradient");
}
stage_effects stage_core::on(labels_msg m) {
  return put(labels_, std::move(m), "labels");
}

// The optimizer may have begun before this replica has.
stage_effects stage_core::on(weights_msg m) {
  stage_effects out;
  if (m.stretch != stretch_ || (!run_ && !evaluates_)) {
    early_.push_back(std::move(m));
    return out;
  }
  take(std::move(m));
  pump(out);
  return out;
}

void stage_core::take(weights_msg m) {
  first_version_ = m.weights->version - m.version;
  versions_[m.version] = std::move(m.weights);
  if (run_) drop_versions();
}

void stage_core::restart(std::int64_t stretch, phase mode) {
  activations_.restart(mode, "activation");
  gradients_in_.restart(mode, "gradient");
  labels_.restart(mode, "labels");
  check(records_.empty() && computing_ == 0, "a stretch began before the one before was over");
  stretch_ = stretch;
  evaluates_ = mode == phase::evaluation;
  evaluation_states_.reset();
  versions_.clear();
  gradients_.clear();
}

stage_effects stage_core::on(const begin_training_msg& m) {
  restart(m.run->number, phase::training);
  run_ = m.run;
  cursor_ = planner::worker_cursor(run_->schedule, {place_.stage, place_.replica});
  is_done_ = false;
  for (auto& w : std::exchange(early_, {}))
    if (w.stretch == stretch_) take(std::move(w));
  stage_effects out;
  pump(out);
  return out;
}

stage_effects stage_core::on(const end_after_msg& m) {
  stage_effects out;
  if (!run_ || m.stretch != stretch_) return out; // an evaluation is cut at its source
  cursor_.end_after(m.minibatches);
  drop_versions();
  pump(out);
  return out;
}

stage_effects stage_core::on(begin_evaluation_msg m) {
  restart(m.stretch, phase::evaluation);
  run_.reset();
  evaluation_states_ = std::make_shared<std::vector<tensor>>(std::move(m.states));
  for (auto& w : std::exchange(early_, {}))
    if (w.stretch == stretch_) take(std::move(w));
  stage_effects out;
  pump(out);
  return out;
}

bool stage_core::has_input(const planner::action& a) const {
  return activations_.has(a.minibatch, a.microbatch) && (!place_.is_last || labels_.has(a.minibatch, a.microbatch));
}

bool stage_core::has_gradient(const planner::action& a) const {
  // The last stage makes its own: its forward is handed over before, and a stream keeps the order.
  return place_.is_last ? records_.contains({a.minibatch, a.microbatch}) : gradients_in_.has(a.minibatch, a.microbatch);
}

bool stage_core::has_version(int, std::int64_t version) const {
  return versions_.contains(version);
}

// -- what happens next -----------------------------------------------------------

void stage_core::pump(stage_effects& out) {
  if (evaluates_)
    pump_evaluation(out);
  else if (run_)
    pump_training(out);
}

void stage_core::pump_training(stage_effects& out) {
  while (computing_ < computed_ahead) {
    const auto a = cursor_.next(*this);
    if (!a) break;
    // A gradient may leave only when the work that adds to it is done.
    if (a->kind == planner::action_kind::update && computing_ > 0) return;
    cursor_.begin(*a);
    begin(*a, out);
    drop_versions();
  }
  if (computing_ > 0 || is_done_ || !cursor_.finished()) return;
  is_done_ = true;
  out.emplace_back(part_is_done{});
}

void stage_core::begin(const planner::action& a, stage_effects& out) {
  if (a.kind == planner::action_kind::forward)
    begin_forward(a, out);
  else if (a.kind == planner::action_kind::backward)
    begin_backward(a, out);
  else
    contribute(a, out);
}

message_key stage_core::key_of(const planner::action& a) const {
  return {.plan_epoch = place_.plan_epoch,
          .stretch = stretch_,
          .minibatch = run_->first_minibatch + a.minibatch,
          .since_drain = a.minibatch,
          .microbatch = a.microbatch};
}

bool stage_core::keeps_versions_for_backward() const {
  // What is computed again must be what the forward computed.
  return run_->schedule.stashes_weights || place_.recomputes;
}

void stage_core::begin_forward(const planner::action& a, stage_effects& out) {
  auto m = activations_.take(a.minibatch, a.microbatch);
  auto job = std::make_shared<stage_job>();
  job->what = stage_job::kind::forward;
  job->key = key_of(a);
  job->samples = m.samples;
  job->states = states_;
  job->record = std::make_shared<microbatch_record>();
  job->record->id = {place_.seed, job->key.minibatch, a.microbatch, m.samples, 0};
  if (place_.is_last) {
    auto l = labels_.take(a.minibatch, a.microbatch);
    if (l.samples != m.samples)
      throw error("[message] " + std::to_string(l.samples) + " labels for " + std::to_string(m.samples) +
                  " samples of minibatch " + std::to_string(m.key.minibatch));
    job->labels = std::move(l.labels);
    job->record->id.minibatch_samples = l.minibatch_samples;
  }
  if (m.samples > 0)
    job->inputs =
        in_model_order(place_.layers->whole(), place_.layers->inputs(), std::move(m.tensors), m.samples, false);
  job->record->weights = versions_.at(a.version);
  job->version = job->record->weights->version;
  job->lets_go_of_weights = !keeps_versions_for_backward();
  records_[{a.minibatch, a.microbatch}] = {job->record, a.version};
  hand_over(std::move(job), out);
}

void stage_core::begin_backward(const planner::action& a, stage_effects& out) {
  auto job = std::make_shared<stage_job>();
  job->what = stage_job::kind::backward;
  job->key = key_of(a);
  job->states = states_;
  const auto held = records_.find({a.minibatch, a.microbatch});
  job->record = std::move(held->second.record);
  records_.erase(held);
  job->samples = job->record->id.samples;
  job->weights = run_->schedule.stashes_weights ? job->record->weights : versions_.at(a.version);
  job->version = job->weights->version;
  if (!place_.is_last) {
    auto m = gradients_in_.take(a.minibatch, a.microbatch);
    job->inputs =
        in_model_order(place_.layers->whole(), place_.layers->outputs(), std::move(m.tensors), job->samples, true);
  }
  const auto group = planner::update_of(run_->schedule, place_.stage, a.minibatch);
  auto& sum = gradients_[group];
  if (!sum) sum = std::make_shared<std::vector<tensor>>(place_.layers->parameters().size());
  job->gradients = sum;
  if (place_.sends_buckets && !cursor_.has_backward_for(place_.stage, group)) job->completes_group = group;
  hand_over(std::move(job), out);
}

// Hands the gradients over. They are complete: nothing is being computed, and all backwards before this update are
// done.
void stage_core::contribute(const planner::action& a, stage_effects& out) {
  gradient_share_msg share{.stretch = stretch_, .group = a.minibatch, .replica = place_.replica};
  if (auto found = gradients_.extract(a.minibatch)) {
    share.minibatches = 1;
    share.gradients = std::move(*found.mapped());
  } else {
    share.gradients.resize(place_.layers->parameters().size());
  }
  drop_versions();
  share.holds_from = holds_from();
  out.emplace_back(give_gradients{std::move(share)});
}

void stage_core::hand_over(std::shared_ptr<stage_job> job, stage_effects& out) {
  ++computing_;
  out.emplace_back(compute{std::move(job)});
}

void stage_core::pump_evaluation(stage_effects& out) {
  const auto weights = versions_.find(0);
  while (weights != versions_.end() && computing_ < computed_ahead) {
    const auto ready =
        activations_.find_if([&](const key& k) { return has_input({.minibatch = k.first, .microbatch = k.second}); });
    if (!ready) return;
    auto m = activations_.take(ready->first, ready->second);
    auto job = std::make_shared<stage_job>();
    job->what = stage_job::kind::evaluate;
    job->key = m.key;
    job->samples = m.samples;
    job->states = evaluation_states_;
    job->inputs =
        in_model_order(place_.layers->whole(), place_.layers->inputs(), std::move(m.tensors), m.samples, false);
    if (place_.is_last) job->labels = labels_.take(ready->first, ready->second).labels;
    job->weights = weights->second;
    job->version = job->weights->version;
    hand_over(std::move(job), out);
  }
}

// -- versions ----------------------------------------------------------------------

// Versions that no later action looks up are let go; what a forward captured stays with its record.
void stage_core::drop_versions() {
  const auto oldest = cursor_.oldest_needed(place_.stage);
  if (!oldest)
    versions_.clear();
  else
    versions_.erase(versions_.begin(), versions_.lower_bound(*oldest));
}

std::int64_t stage_core::holds_from() const {
  auto from = cursor_.oldest_needed(place_.stage).value_or(gradient_share_msg::holds_none);
  if (keeps_versions_for_backward())
    for (const auto& [k, r] : records_)
      from = std::min(from, r.version);
  return from;
}

// -- results ------------------------------------------------------------------------

// First the stream gets its next work, then results are passed on.
stage_effects stage_core::completed(stage_job& job) {
  check(computing_ > 0, "a job came back that was not handed over");
  --computing_;
  stage_effects out;
  pump(out);
  if (job.what == stage_job::kind::backward)
    finish_backward(job, out);
  else
    finish_forward(job, out);
  return out;
}

activation_msg stage_core::activation_of(stage_job& job) const {
  activation_msg m{job.key, job.version, job.samples, {}};
  m.tensors = with_names(place_.layers->whole(), place_.layers->outputs(), std::move(job.outputs));
  return m;
}

// Of an evaluation too; there the last stage gives the credit back.
void stage_core::finish_forward(stage_job& job, stage_effects& out) const {
  if (!place_.is_last) {
    out.emplace_back(send_activation{activation_of(job)});
    return;
  }
  const bool trains = job.what == stage_job::kind::forward;
  if (trains && place_.stops_on_nonfinite && !std::isfinite(job.metrics.loss_sum))
    throw error("[training] the loss is not finite (" + std::to_string(job.metrics.loss_sum) + "): " + who_ +
                ", minibatch " + std::to_string(job.key.minibatch) + ", micro-batch " +
                std::to_string(job.key.microbatch) + ", weight version " + std::to_string(job.version));
  out.emplace_back(send_loss{{job.key, job.metrics}});
  if (!trains) out.emplace_back(return_credit{{job.key}});
}

void stage_core::finish_backward(stage_job& job, stage_effects& out) const {
  if (place_.is_first) {
    out.emplace_back(return_credit{{job.key}});
    return;
  }
  gradient_msg m{job.key, job.version, {}};
  m.tensors = with_names(place_.layers->whole(), place_.layers->inputs(), std::move(job.outputs));
  out.emplace_back(send_gradient{std::move(m)});
}

// -- the stall watchdog and the trace --------------------------------------------------

std::optional<planner::blocked_action> stage_core::waits_for() const {
  if (computing_ > 0 || evaluates_ || !run_ || cursor_.finished()) return {};
  planner::blocked_action blocked;
  if (cursor_.next(*this, &blocked)) return {};
  return blocked;
}

std::string stage_core::describe_wait() const {
  if (computing_ > 0) return who_ + " is computing";
  if (evaluates_) return who_ + " waits for something to evaluate";
  if (!run_ || cursor_.finished()) return who_ + " has finished its list";
  const auto blocked = waits_for();
  if (!blocked) return who_ + " is about to run";
  const auto text = who_ + " cannot run the " + planner::describe(blocked->what) + ": ";
  const auto neighbour = [](int stage) {
    return stage < 0 ? std::string("the source") : "stage " + std::to_string(stage);
  };
  switch (blocked->why) {
  case planner::block_reason::no_input:
    return text + "it waits for the activation from " + neighbour(place_.stage - 1);
  case planner::block_reason::no_gradient:
    return text + "it waits for the gradient from " + neighbour(place_.stage + 1);
  case planner::block_reason::no_version:
    return text + "it waits for weight version " + std::to_string(first_version_ + blocked->what.version) +
           " from its optimizer";
  default:
    return text + "its credit is used up, it waits for a gradient from " + neighbour(place_.stage + 1);
  }
}

} // namespace penstock::actors
