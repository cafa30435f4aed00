// What a stage replica does with a message, and what its schedule lets it do next.
#include "actors/stage_replica.hpp"

#include "kernels/check.hpp"

namespace penstock::actors {

void stage_replica::start(stage_actor::pointer self, context_ptr context, int stage, int replica) {
  self_ = self;
  context_ = std::move(context);
  unit_ = &context_->services.parts.stages.at(static_cast<std::size_t>(stage));
  own_ = &unit_->replicas.at(static_cast<std::size_t>(replica));
  replica_ = replica;
  who_ = "stage " + std::to_string(stage) + (unit_->replicas.size() > 1 ? " replica " + std::to_string(replica) : "");
  trace_ = stage_tracer(context_->services.trace, stage, replica);
  if (context_->services.parts.where.hosts(stage).size() > 1)
    buckets_ = std::make_shared<const bucket_plan>(plan_buckets(*unit_));
  *work_ = {context_, unit_, own_, trace_, {}};
}

// -- what comes in -------------------------------------------------------------

void stage_replica::check_key(const message_key& key) const {
  if (key.plan_epoch == 0 && key.segment == segment_) return;
  throw error("[message] a message of plan epoch " + std::to_string(key.plan_epoch) + ", segment " +
              std::to_string(key.segment) + " came; this is plan epoch 0, segment " + std::to_string(segment_));
}

void stage_replica::take(const activation_msg& m) {
  check_key(m.key);
  trace_.received(m.key, total_bytes(m.tensors), unit_->index - 1, activations_.size());
  activations_.put(m, bound(), "activation");
  pump();
}

void stage_replica::take(const gradient_msg& m) {
  check_key(m.key);
  trace_.received(m.key, total_bytes(m.tensors), unit_->index + 1, gradients_in_.size());
  gradients_in_.put(m, bound(), "gradient");
  pump();
}

void stage_replica::take(const labels_msg& m) {
  check_key(m.key);
  labels_.put(m, bound(), "labels");
  pump();
}

void stage_replica::take(const weights_msg& m) {
  check(m.segment == segment_, "a weight version of another segment");
  versions_[m.version] = m.weights;
  drop_versions();
  pump();
}

void stage_replica::restart_inboxes(phase mode) {
  activations_.restart(mode, "activation");
  gradients_in_.restart(mode, "gradient");
  labels_.restart(mode, "labels");
}

void stage_replica::begin(const begin_segment_msg& m) {
  restart_inboxes(phase::training);
  run_ = m.run;
  segment_ = run_->segment;
  cursor_ = planner::worker_cursor(run_->plan, {planner::position_of(run_->plan, unit_->index), replica_});
  evaluation_weights_.reset();
  work_->evaluation_states.clear();
  base_version_ = m.weights->version;
  versions_.clear();
  versions_[0] = m.weights;
  gradients_.clear();
  reported_done_ = false;
  trace_.begin_segment(segment_);
  pump();
}

void stage_replica::truncate(const truncate_segment_msg& m) {
  cursor_.end_after(m.run->plan.minibatches);
  run_ = m.run;
  drop_versions();
  pump();
}

void stage_replica::begin(const begin_evaluation_msg& m) {
  restart_inboxes(phase::evaluation);
  segment_ = m.segment;
  evaluation_weights_ = m.weights;
  work_->evaluation_states = m.states;
}

bool stage_replica::has_input(std::int64_t minibatch, std::int32_t microbatch) const {
  return activations_.has(minibatch, microbatch) && (!unit_->is_last || labels_.has(minibatch, microbatch));
}

bool stage_replica::has_gradient(const planner::action& backward) const {
  // The last stage makes its own: its forward is posted before, and a stream keeps the order.
  return unit_->is_last ? records_.contains({backward.minibatch, backward.microbatch})
                        : gradients_in_.has(backward.minibatch, backward.microbatch);
}

// -- what happens next -----------------------------------------------------------

void stage_replica::pump() {
  if (evaluation_weights_)
    pump_evaluation();
  else if (run_)
    pump_training();
}

void stage_replica::pump_training() {
  planner::blocked_action blocked;
  while (posted_ < posted_ahead) {
    const auto a = cursor_.next(*this, &blocked);
    if (!a) break;
    // A gradient may leave only when the work that adds to it is done.
    if (a->kind == planner::action_kind::update && posted_ > 0) return;
    trace_.wait_ends();
    cursor_.begin(*a);
    run(*a);
    drop_versions();
  }
  if (posted_ > 0) return;
  if (cursor_.finished())
    report_done();
  else
    trace_.wait_begins(blocked, run_->first_minibatch, unit_->replicas.size() > 1);
}

void stage_replica::run(const planner::action& a) {
  if (a.kind == planner::action_kind::forward)
    run_forward(a);
  else if (a.kind == planner::action_kind::backward)
    run_backward(a);
  else
    contribute(a);
}

void stage_replica::pump_evaluation() {
  while (posted_ < posted_ahead && activations_.size() > 0) {
    const auto ready = activations_.find_if([&](const auto& k) { return has_input(k.first, k.second); });
    if (!ready) return;
    auto m = activations_.take(ready->first, ready->second);
    auto job = std::make_shared<stage_job>();
    job->what = stage_job::kind::evaluate;
    job->key = m.key;
    job->samples = m.samples;
    job->inputs = in_model_order(unit_->layers->whole(), unit_->layers->inputs(), m.tensors, m.samples, false);
    if (unit_->is_last) job->labels = labels_.take(ready->first, ready->second).labels;
    job->weights = evaluation_weights_;
    job->version = evaluation_weights_->version;
    post(std::move(job));
  }
}

// Versions that no later action looks up are let go; what a forward captured stays with its record.
void stage_replica::drop_versions() {
  const auto oldest = cursor_.oldest_needed(unit_->index);
  if (!oldest)
    versions_.clear();
  else
    versions_.erase(versions_.begin(), versions_.lower_bound(*oldest));
}

void stage_replica::report_done() {
  trace_.wait_ends();
  if (reported_done_) return;
  reported_done_ = true;
  caf::anon_send(context_->coordinator, part_done_msg{who_});
}

// -- the stall watchdog ----------------------------------------------------------------

std::string stage_replica::describe_wait() const {
  if (posted_ > 0) return who_ + " is computing";
  if (evaluation_weights_) return who_ + " waits for something to evaluate";
  if (!run_ || cursor_.finished()) return who_ + " has finished its list";
  planner::blocked_action b;
  if (cursor_.next(*this, &b)) return who_ + " is about to run";
  const auto text = who_ + " cannot run the " + planner::describe(b.what) + ": ";
  const auto neighbour = [](int stage) {
    return stage < 0 ? std::string("the source") : "stage " + std::to_string(stage);
  };
  switch (b.why) {
  case planner::block_reason::no_input:
    return text + "it waits for the activation from " + neighbour(unit_->index - 1);
  case planner::block_reason::no_gradient:
    return text + "it waits for the gradient from " + neighbour(unit_->index + 1);
  case planner::block_reason::no_version:
    return text + "it waits for weight version " + std::to_string(base_version_ + b.what.version) +
           " from its optimizer";
  default:
    return text + "its credit is used up, it waits for a gradient from " + neighbour(unit_->index + 1);
  }
}

} // namespace penstock::actors
