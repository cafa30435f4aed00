// What a stage makes of messages: work, and what is passed on of its results.
#include "actors/stage/stage_core.hpp"

#include "kernels/check.hpp"
#include "kernels/model_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::actors {

stage_core::stage_core(stage_place place, const planner::worker_cursor& cursor, std::vector<tensor> states,
                       std::vector<tensor> carried)
    : place_(std::move(place)), who_(name_of(place_)), cursor_(cursor),
      states_(std::make_shared<std::vector<tensor>>(std::move(states))),
      carried_(std::make_shared<carried_columns>(place_.layers->carried(), std::move(carried))) {}

// -- what comes in -------------------------------------------------------------

void stage_core::check_key(const message_key& k) const {
  if (k.plan_epoch == place_.plan_epoch && k.stretch == stretch_) return;
  throw error("[message] a message of plan epoch " + std::to_string(k.plan_epoch) + ", stretch " +
              std::to_string(k.stretch) + " came; this is plan epoch " + std::to_string(place_.plan_epoch) +
              ", stretch " + std::to_string(stretch_));
}

void stage_core::put(activation_msg m) {
  check_key(m.key);
  activations_.put(std::move(m), bound(), "activation");
}
void stage_core::put(gradient_msg m) {
  check_key(m.key);
  gradients_in_.put(std::move(m), bound(), "gradient");
}
void stage_core::put(inputs_msg m) {
  check_key(m.key);
  fed_.put(std::move(m), bound(), "inputs");
}

// The optimizer may have begun before this replica has.
bool stage_core::take(weights_msg m) {
  if (m.stretch != stretch_ || !has_begun_) {
    early_.push_back(std::move(m));
    return false;
  }
  adopt(std::move(m));
  return true;
}

void stage_core::adopt(weights_msg m) {
  first_version_ = m.weights->version - m.version;
  versions_[m.version] = std::move(m.weights);
  if (run_) drop_versions();
}

void stage_core::adopt_early() {
  for (auto& w : std::exchange(early_, {}))
    if (w.stretch == stretch_) adopt(std::move(w));
}

void stage_core::restart(std::int64_t stretch, phase mode) {
  activations_.restart(mode, "activation");
  gradients_in_.restart(mode, "gradient");
  fed_.restart(mode, "inputs");
  check(records_.empty(), "a stretch began before the one before was over");
  stretch_ = stretch;
  has_begun_ = true;
  run_.reset();
  evaluation_states_.reset();
  evaluation_carried_.reset();
  next_evaluated_ = 0;
  versions_.clear();
  gradients_.clear();
  in_backward_.clear();
  groups_begun_ = 0;
}

void stage_core::begin_training(const stretch_ptr& run) {
  restart(run->number, phase::training);
  run_ = run;
  carried_->begin(*run_, columns_of(*run_, place_.stage, place_.replica));
  adopt_early();
}

void stage_core::begin_evaluation(std::int64_t stretch, std::vector<tensor> states) {
  restart(stretch, phase::evaluation);
  evaluation_states_ = std::make_shared<std::vector<tensor>>(std::move(states));
  evaluation_carried_ = std::make_shared<carried_columns>(place_.layers->carried());
  adopt_early();
}

bool stage_core::has_input(const planner::action& a) const {
  return activations_.has(a.minibatch, a.microbatch) && (!place_.reads_inputs || fed_.has(a.minibatch, a.microbatch));
}

bool stage_core::has_gradient(const planner::action& a) const {
  // The last stage makes its own: its forward is handed over before, and a stream keeps the order.
  return place_.is_last ? records_.contains({a.minibatch, a.microbatch}) : gradients_in_.has(a.minibatch, a.microbatch);
}

// -- its work --------------------------------------------------------------------

message_key stage_core::key_of(const planner::action& a) const {
  return {.plan_epoch = place_.plan_epoch,
          .stretch = stretch_,
          .minibatch = run_->first_minibatch + a.minibatch,
          .since_drain = a.minibatch,
          .microbatch = a.microbatch,
          .stage = place_.stage};
}

bool stage_core::keeps_versions_for_backward() const {
  // What is computed again must be what the forward computed.
  return run_->schedule.stashes_weights || place_.recomputes;
}

// What came from the stage before and from the source, in the order in which the segment takes it.
void stage_core::take_arguments(const key& k, stage_work& job) {
  const auto& net = place_.layers->whole();
  auto m = activations_.take(k.first, k.second);
  job.info = m.info;
  std::optional<inputs_msg> fed;
  if (place_.reads_inputs) {
    fed = fed_.take(k.first, k.second);
    if (fed->info != m.info)
      throw error("[message] the inputs of minibatch " + std::to_string(m.key.minibatch) + " are of " +
                  std::to_string(fed->info.samples) + " samples, its activation of " + std::to_string(m.info.samples) +
                  ", or of other extents");
  }
  if (m.info.samples == 0) return;
  // The source sends stage 0 what it reads in place of an activation.
  const auto& wanted = place_.is_first ? place_.layers->fed() : place_.layers->inputs();
  job.inputs = in_model_order(net, wanted, std::move(m.tensors), m.info, true);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!job.inputs[i] && place_.layers->is_needed(wanted[i], place_.layers->first(), m.key.mode))
      throw error("[message] tensor '" + net.value(wanted[i]).name + "' is empty");
  if (!fed) return;
  for (auto& t : in_model_order(net, place_.layers->fed(), std::move(fed->tensors), m.info, false))
    job.inputs.push_back(std::move(t));
}

std::shared_ptr<stage_work> stage_core::begin_forward(const planner::action& a) {
  auto job = std::make_shared<stage_work>();
  job->what = stage_work::kind::forward;
  job->key = key_of(a);
  take_arguments({a.minibatch, a.microbatch}, *job);
  job->states = states_;
  job->carried = carried_;
  job->record = std::make_shared<microbatch_record>();
  job->record->id = {place_.seed, job->key.minibatch, a.microbatch, job->info};
  job->record->weights = versions_.at(a.version);
  job->version = job->record->weights->version;
  job->lets_go_of_weights = !keeps_versions_for_backward();
  if (!place_.layers->is_frozen()) records_[{a.minibatch, a.microbatch}] = {job->record, a.version};
  return job;
}

// Whole, or one of its parts: what a micro-batch left stays here until its weight gradients are asked for.
std::shared_ptr<stage_work> stage_core::begin_backward(const planner::action& a) {
  auto job = std::make_shared<stage_work>();
  job->what = a.kind == planner::action_kind::backward         ? stage_work::kind::backward
              : a.kind == planner::action_kind::backward_input ? stage_work::kind::backward_input
                                                               : stage_work::kind::backward_weight;
  job->key = key_of(a);
  job->states = states_;
  const auto held = records_.find({a.minibatch, a.microbatch});
  job->record = held->second.record;
  if (gives_early() && !gives_behind()) in_backward_.emplace(held->first, held->second.version);
  if (planner::makes_weight_gradient(a.kind)) records_.erase(held);
  job->info = job->record->id.info;
  job->weights = run_->schedule.stashes_weights ? job->record->weights : versions_.at(a.version);
  job->version = job->weights->version;
  if (!place_.is_last && planner::ends_flight(a.kind)) {
    auto m = gradients_in_.take(a.minibatch, a.microbatch);
    job->inputs =
        in_model_order(place_.layers->whole(), place_.layers->outputs(), std::move(m.tensors), job->info, true);
  }
  if (planner::makes_weight_gradient(a.kind)) add_to_update(a, *job);
  return job;
}

void stage_core::add_to_update(const planner::action& a, stage_work& job) {
  const auto group = planner::update_of(run_->schedule, place_.stage, a.minibatch);
  auto& sum = gradients_[group];
  if (!sum.gradients) sum.gradients = std::make_shared<std::vector<tensor>>(place_.layers->parameters().size());
  job.gradients = sum.gradients;
  sum.counts = sum.counts || place_.layers->counts_anything(job.info);
  groups_begun_ = std::max(groups_begun_, group + 1);
  if (place_.sends_buckets && !cursor_.has_backward_for(place_.stage, group)) job.completes_group = group;
}

bool stage_core::gives_early() const {
  return run_->schedule.stages[static_cast<std::size_t>(place_.stage)].update_lag > 0;
}

give_gradients stage_core::give_of(const stage_work& job) {
  return contribute(planner::update_of(run_->schedule, place_.stage, job.key.since_drain));
}

std::optional<give_gradients> stage_core::give_with(const stage_work& job) {
  if (!gives_early() || !gives_behind()) return {};
  return give_of(job);
}

std::optional<give_gradients> stage_core::give_after(const stage_work& job) {
  if (job.what != stage_work::kind::backward || !gives_early() || gives_behind()) return {};
  in_backward_.erase({job.key.since_drain, job.key.microbatch});
  return give_of(job);
}

give_gradients stage_core::contribute(std::int64_t group) {
  gradient_share_msg share{.stretch = stretch_, .group = group, .replica = place_.replica};
  if (auto found = gradients_.extract(group)) {
    share.minibatches = found.mapped().counts ? 1 : 0;
    share.gradients = std::move(found.mapped().gradients);
  } else {
    share.gradients = std::make_shared<std::vector<tensor>>(place_.layers->parameters().size());
  }
  drop_versions();
  share.holds_from = holds_from();
  return {place_.stage, std::move(share)};
}

std::shared_ptr<stage_work> stage_core::next_evaluation() {
  const auto weights = versions_.find(0);
  if (weights == versions_.end()) return nullptr;
  const bool in_order = evaluation_carried_->is_needed();
  const auto ready = activations_.find_if([&](const key& k) {
    return has_input({.minibatch = k.first, .microbatch = k.second}) && (!in_order || k.first == next_evaluated_);
  });
  if (!ready) return nullptr;
  next_evaluated_ = ready->first + 1;
  auto job = std::make_shared<stage_work>();
  job->what = stage_work::kind::evaluate;
  job->key = {.plan_epoch = place_.plan_epoch,
              .stretch = stretch_,
              .minibatch = ready->first,
              .since_drain = ready->first,
              .microbatch = ready->second,
              .stage = place_.stage,
              .mode = phase::evaluation};
  take_arguments(*ready, *job);
  job->states = evaluation_states_;
  job->carried = evaluation_carried_;
  job->weights = weights->second;
  job->version = job->weights->version;
  return job;
}

// -- versions ----------------------------------------------------------------------

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
  for (const auto& [k, version] : in_backward_)
    from = std::min(from, version);
  return from;
}

// -- results ------------------------------------------------------------------------

void require_finite_loss(const stage_place& place, const stage_work& job) {
  if (job.what != stage_work::kind::forward || !place.stops_on_nonfinite) return;
  const double loss = loss_sum(place.layers->whole(), place.layers->losses(), job.metrics);
  if (std::isfinite(loss)) return;
  throw error("[training] the loss is not finite (" + std::to_string(loss) + "): " + name_of(place) + ", minibatch " +
              std::to_string(job.key.minibatch) + ", micro-batch " + std::to_string(job.key.microbatch) +
              ", weight version " + std::to_string(job.version));
}

void stage_core::finish(stage_work& job, worker_effects& out) const {
  if (job.what == stage_work::kind::backward || job.what == stage_work::kind::backward_input)
    finish_backward(job, out);
  else if (job.what != stage_work::kind::backward_weight)
    finish_forward(job, out);
}

message_key stage_core::for_stage(message_key key, int stage) {
  key.stage = stage;
  return key;
}

activation_msg stage_core::activation_of(stage_work& job) const {
  activation_msg m{for_stage(job.key, place_.stage + 1), job.version, job.info, {}};
  m.tensors = with_names(place_.layers->whole(), place_.layers->outputs(), std::move(job.outputs));
  return m;
}

// Of an evaluation too; there the last stage gives the credit back.
void stage_core::finish_forward(stage_work& job, worker_effects& out) const {
  if (!place_.is_last) out.emplace_back(send_activation{activation_of(job)});
  if (place_.tells_metrics) {
    loss_msg m{job.key, job.metrics, {}};
    if (!job.results.empty())
      m.results = with_names(place_.layers->whole(), place_.layers->outputs(), std::move(job.results));
    out.emplace_back(send_loss{std::move(m)});
  }
  if (place_.is_last && job.what == stage_work::kind::evaluate) out.emplace_back(return_credit{{job.key}});
}

void stage_core::finish_backward(stage_work& job, worker_effects& out) const {
  if (place_.is_first_active) return; // nobody wants it
  gradient_msg m{for_stage(job.key, place_.stage - 1), job.version, {}};
  m.tensors = with_names(place_.layers->whole(), place_.layers->inputs(), std::move(job.outputs));
  out.emplace_back(send_gradient{std::move(m)});
}

} // namespace penstock::actors
