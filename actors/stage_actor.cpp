// A stage replica: takes messages into its inboxes, asks the schedule what is next, posts it to its stream.
#include "actors/stage_actor.hpp"

#include "actors/policy/replica_cursor.hpp"
#include "actors/ranks/bucket_plan.hpp"
#include "actors/stage_inbox.hpp"
#include "actors/stage_job.hpp"
#include "actors/stage_work.hpp"
#include "kernels/check.hpp"

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cmath>
#include <deque>

namespace penstock::actors {

namespace {

// Work is posted ahead of its predecessor's completion, one deep: where only stream order matters the stream never
// idles for a round trip through the mailbox.
constexpr int posted_ahead = 2;

class stage_replica : public replica_readiness {
public:
  void start(stage_actor::pointer self, context_ptr context, int stage, int replica);
  const std::string& who() const { return who_; }
  actor_context& context() { return *context_; }

  void connect(const connect_stage_msg& m) { links_ = m; }
  void take(const activation_msg& m);
  void take(const gradient_msg& m);
  void take(const labels_msg& m);
  void take(const weights_msg& m);
  void begin(const begin_segment_msg& m);
  void truncate(const truncate_segment_msg& m);
  void begin(const begin_evaluation_msg& m);
  void completed(const computed_msg& m);
  std::string describe_wait() const;

  bool has_input(std::int64_t minibatch, std::int32_t microbatch) const override;
  bool has_gradient(std::int64_t minibatch, std::int32_t microbatch) const override;
  bool has_version(std::int64_t version) const override { return versions_.contains(version); }

private:
  void restart_inboxes(phase mode);
  void pump();
  void pump_training();
  void pump_evaluation();
  void run(const planner::action& a);
  void run_forward(const planner::action& a);
  void run_backward(const planner::action& a);
  void contribute(const planner::action& a);
  std::int64_t group_of(const planner::action& backward) const;
  std::function<void(int)> bucket_sender(std::int64_t group, const std::shared_ptr<std::vector<tensor>>& sum) const;
  void drop_versions();
  void post(std::shared_ptr<stage_job> job);
  void finish_forward(stage_job& job);
  void finish_backward(stage_job& job);
  void finish_evaluation(stage_job& job);
  void return_credit(const message_key& key);
  void check_loss(const stage_job& job) const;
  void report_done();
  void check_key(const message_key& key) const;
  std::size_t bound() const { return static_cast<std::size_t>(links_.source_credit); } // no more is ever admitted
  template <class Message>
  void send_tensors(const neighbour_side& side, Message m, int peer);
  message_key key_of(const planner::action& a) const;

  stage_actor::pointer self_ = nullptr;
  context_ptr context_;
  stage_unit* unit_ = nullptr;
  replica_unit* own_ = nullptr;
  int replica_ = 0;
  std::string who_;
  connect_stage_msg links_;
  stage_tracer trace_;
  std::shared_ptr<stage_work> work_ = std::make_shared<stage_work>();

  segment_run_ptr run_;
  replica_cursor cursor_;
  bool reported_done_ = true;
  keyed_inbox<activation_msg> activations_;
  keyed_inbox<gradient_msg> gradients_in_;
  keyed_inbox<labels_msg> labels_;
  std::map<keyed_inbox<activation_msg>::key, std::shared_ptr<microbatch_record>> records_;
  std::map<std::int64_t, weights_ptr> versions_; // by version since the drain
  std::int64_t base_version_ = 0;
  // Gradients by update group, summed so far. There are two under 2bw: backwards of the next minibatch begin before the
  // update of this one. The stream adds to a set while a backward of its group is posted.
  std::map<std::int64_t, std::shared_ptr<std::vector<tensor>>> gradients_;
  std::shared_ptr<const bucket_plan> buckets_; // where the stage's replicas are on several ranks
  int posted_ = 0;

  weights_ptr evaluation_weights_;
  std::int64_t segment_ = 0;
};

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
  const auto& s = run_->plan.stages[static_cast<std::size_t>(unit_->index)];
  cursor_ = replica_cursor(&s.lists[static_cast<std::size_t>(replica_)], s.credit, run_->plan.window,
                           run_->plan.stashes_weights);
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
  const auto& s = m.run->plan.stages[static_cast<std::size_t>(unit_->index)];
  cursor_.replace(&s.lists[static_cast<std::size_t>(replica_)]);
  run_ = m.run; // only now: the old list lived in the old run
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

bool stage_replica::has_gradient(std::int64_t minibatch, std::int32_t microbatch) const {
  // The last stage makes its own: its forward is posted before, and a stream keeps the order.
  return unit_->is_last ? records_.contains({minibatch, microbatch}) : gradients_in_.has(minibatch, microbatch);
}

// -- what happens next -----------------------------------------------------------

void stage_replica::pump() {
  if (evaluation_weights_)
    pump_evaluation();
  else if (run_)
    pump_training();
}

void stage_replica::pump_training() {
  blocked_action blocked;
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

message_key stage_replica::key_of(const planner::action& a) const {
  return {.segment = segment_,
          .minibatch = run_->first_minibatch + a.minibatch,
          .since_drain = a.minibatch,
          .microbatch = a.microbatch};
}

void stage_replica::run_forward(const planner::action& a) {
  auto m = activations_.take(a.minibatch, a.microbatch);
  auto job = std::make_shared<stage_job>();
  job->what = stage_job::kind::forward;
  job->key = key_of(a);
  job->action = a;
  job->samples = m.samples;
  job->record = std::make_shared<microbatch_record>();
  job->record->id = {context_->services.options.seed, job->key.minibatch, a.microbatch, m.samples, 0};
  if (unit_->is_last) {
    auto l = labels_.take(a.minibatch, a.microbatch);
    if (l.samples != m.samples)
      throw error("[message] " + std::to_string(l.samples) + " labels for " + std::to_string(m.samples) +
                  " samples of minibatch " + std::to_string(m.key.minibatch));
    job->labels = std::move(l.labels);
    job->record->id.minibatch_samples = l.minibatch_samples;
  }
  if (m.samples > 0)
    job->inputs = in_model_order(unit_->layers->whole(), unit_->layers->inputs(), m.tensors, m.samples, false);
  m.tensors.clear();
  job->record->weights = versions_.at(a.version);
  job->version = job->record->weights->version;
  job->stashes_weights = run_->plan.stashes_weights;
  records_[{a.minibatch, a.microbatch}] = job->record;
  post(std::move(job));
}

void stage_replica::run_backward(const planner::action& a) {
  auto job = std::make_shared<stage_job>();
  job->what = stage_job::kind::backward;
  job->key = key_of(a);
  job->action = a;
  const auto record = records_.find({a.minibatch, a.microbatch});
  job->record = std::move(record->second);
  records_.erase(record);
  job->samples = job->record->id.samples;
  job->weights = run_->plan.stashes_weights ? job->record->weights : versions_.at(a.version);
  job->version = job->weights->version;
  if (!unit_->is_last) {
    auto m = gradients_in_.take(a.minibatch, a.microbatch);
    job->inputs = in_model_order(unit_->layers->whole(), unit_->layers->outputs(), m.tensors, job->samples, true);
  }
  auto& sum = gradients_[group_of(a)];
  if (!sum) sum = std::make_shared<std::vector<tensor>>(unit_->layers->parameters().size());
  job->gradients = sum;
  if (buckets_ && !cursor_.has_backward_for(group_of(a), [this](const auto& b) { return group_of(b); }))
    job->layer_done = bucket_sender(group_of(a), sum);
  post(std::move(job));
}

// Hands each bucket over, on the stream, as soon as the layers that it belongs to are done.
std::function<void(int)> stage_replica::bucket_sender(std::int64_t group,
                                                      const std::shared_ptr<std::vector<tensor>>& sum) const {
  return [next = std::size_t{0}, group, sum, plan = buckets_, layers = unit_->layers, to = links_.group,
          segment = segment_, replica = replica_](int layer) mutable {
    for (; next < plan->size() && (*plan)[next].first >= layers->first_parameter(layer); ++next) {
      const auto& b = (*plan)[next];
      gradient_bucket_msg m{segment, group, replica, next, {}};
      m.gradients.assign(sum->begin() + static_cast<std::ptrdiff_t>(b.first),
                         sum->begin() + static_cast<std::ptrdiff_t>(b.last));
      caf::anon_send(to, std::move(m));
    }
  };
}

// The update that a backward's gradient goes into.
std::int64_t stage_replica::group_of(const planner::action& backward) const {
  const auto replicas = static_cast<std::int64_t>(unit_->replicas.size());
  return run_->plan.updates.per_minibatch_group ? backward.minibatch / replicas : backward.minibatch;
}

// Hands the gradients over. They are complete: nothing is posted, and all backwards before this update are done.
void stage_replica::contribute(const planner::action& a) {
  const auto found = gradients_.find(a.minibatch);
  gradient_share_msg share{segment_, a.minibatch, replica_, found == gradients_.end() ? 0 : 1, {}};
  if (found == gradients_.end())
    share.gradients.resize(unit_->layers->parameters().size());
  else
    share.gradients = std::move(*found->second);
  if (found != gradients_.end()) gradients_.erase(found);
  drop_versions(); // before the optimizer looks whether it may write in place
  caf::anon_send(links_.group, std::move(share));
}

// Versions that no later action looks up are let go; what a forward captured stays with its record.
void stage_replica::drop_versions() {
  const auto oldest = cursor_.oldest_needed();
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

// -- work on the stream ------------------------------------------------------------

void stage_replica::post(std::shared_ptr<stage_job> job) {
  ++posted_;
  context_->stage = unit_->index;
  context_->minibatch = job->what == stage_job::kind::evaluate ? -1 : job->key.minibatch;
  const auto address = caf::actor_cast<stage_actor>(self_);
  own_->work->post([work = work_, raw = job.get()](backend& ops) { work->compute(ops, *raw); },
                   [job, address](std::exception_ptr failure) {
                     caf::anon_send(address, computed_msg{job, failure});
                   });
}

void stage_replica::completed(const computed_msg& m) {
  --posted_;
  if (m.failure) std::rethrow_exception(m.failure);
  ++context_->progress;
  pump(); // first give the stream its next work, then pass results on
  switch (m.job->what) {
  case stage_job::kind::forward:
    finish_forward(*m.job);
    break;
  case stage_job::kind::backward:
    finish_backward(*m.job);
    break;
  case stage_job::kind::evaluate:
    finish_evaluation(*m.job);
    break;
  }
}

template <class Message>
void stage_replica::send_tensors(const neighbour_side& side, Message m, int peer) {
  trace_.sent(m.key, total_bytes(m.tensors), peer);
  caf::anon_send(side.of(m.key), std::move(m));
}

void stage_replica::check_loss(const stage_job& job) const {
  if (!context_->services.options.stop_on_nonfinite || std::isfinite(job.metrics.loss_sum)) return;
  throw error("[training] the loss is not finite (" + std::to_string(job.metrics.loss_sum) + "): " + who_ +
              ", minibatch " + std::to_string(job.key.minibatch) + ", micro-batch " +
              std::to_string(job.key.microbatch) + ", weight version " + std::to_string(job.version));
}

void stage_replica::finish_forward(stage_job& job) {
  if (unit_->is_last) {
    check_loss(job);
    caf::anon_send(links_.metrics, loss_msg{job.key, job.metrics});
    return;
  }
  activation_msg m{job.key, job.version, job.samples, {}};
  m.tensors = with_names(unit_->layers->whole(), unit_->layers->outputs(), std::move(job.outputs));
  send_tensors(links_.next, std::move(m), unit_->index + 1);
}

void stage_replica::return_credit(const message_key& key) {
  caf::anon_send(links_.sources.at(static_cast<std::size_t>(links_.deal_first(key))), credit_msg{key});
}

void stage_replica::finish_backward(stage_job& job) {
  if (unit_->is_first) {
    return_credit(job.key);
    return;
  }
  gradient_msg m{job.key, job.version, {}};
  m.tensors = with_names(unit_->layers->whole(), unit_->layers->inputs(), std::move(job.outputs));
  send_tensors(links_.previous, std::move(m), unit_->index - 1);
}

// -- evaluation ---------------------------------------------------------------------

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

void stage_replica::finish_evaluation(stage_job& job) {
  if (unit_->is_last) {
    caf::anon_send(links_.metrics, loss_msg{job.key, job.metrics});
    return_credit(job.key);
    return;
  }
  activation_msg m{job.key, job.version, job.samples, {}};
  m.tensors = with_names(unit_->layers->whole(), unit_->layers->outputs(), std::move(job.outputs));
  send_tensors(links_.next, std::move(m), unit_->index + 1);
}

// -- the stall watchdog ----------------------------------------------------------------

std::string stage_replica::describe_wait() const {
  if (posted_ > 0) return who_ + " is computing";
  if (evaluation_weights_) return who_ + " waits for something to evaluate";
  if (!run_ || cursor_.finished()) return who_ + " has finished its list";
  blocked_action b;
  if (cursor_.next(*this, &b)) return who_ + " is about to run";
  const auto text = who_ + " cannot run the " + to_string(b.what) + ": ";
  const auto neighbour = [](int stage) {
    return stage < 0 ? std::string("the source") : "stage " + std::to_string(stage);
  };
  switch (b.why) {
  case block_reason::no_input:
    return text + "it waits for the activation from " + neighbour(unit_->index - 1);
  case block_reason::no_gradient:
    return text + "it waits for the gradient from " + neighbour(unit_->index + 1);
  case block_reason::no_version:
    return text + "it waits for weight version " + std::to_string(base_version_ + b.what.version) +
           " from its optimizer";
  default:
    return text + "its credit is used up, it waits for a gradient from " + neighbour(unit_->index + 1);
  }
}

stage_actor::behavior_type stage_behavior(stage_actor::stateful_pointer<stage_replica> self, context_ptr context,
                                          int stage, int replica) {
  self->state.start(self, std::move(context), stage, replica);
  const auto take = [self](const auto& m) {
    guarded(self->state.context(), self->state.who(), [&] { self->state.take(m); });
  };
  const auto begin = [self](const auto& m) {
    guarded(self->state.context(), self->state.who(), [&] { self->state.begin(m); });
  };
  return {
      [=](const activation_msg& m) { take(m); },
      [=](const gradient_msg& m) { take(m); },
      [=](const connect_stage_msg& m) { self->state.connect(m); },
      [=](const labels_msg& m) { take(m); },
      [=](const begin_segment_msg& m) { begin(m); },
      [=](const truncate_segment_msg& m) {
        guarded(self->state.context(), self->state.who(), [&] { self->state.truncate(m); });
      },
      [=](const begin_evaluation_msg& m) { begin(m); },
      [=](const weights_msg& m) { take(m); },
      [=](const computed_msg& m) {
        guarded(self->state.context(), self->state.who(), [&] { self->state.completed(m); });
      },
      [=](const describe_wait_msg&) {
        caf::anon_send(self->state.context().coordinator, wait_description_msg{self->state.describe_wait()});
      },
  };
}

} // namespace

stage_actor spawn_stage(caf::actor_system& system, context_ptr context, int stage, int replica) {
  return system.spawn(stage_behavior, std::move(context), stage, replica);
}

} // namespace penstock::actors
