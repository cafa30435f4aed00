// A stage replica's actions: from the schedule's list onto the stream, and their results to the neighbours.
#include "actors/stage_replica.hpp"
#include "kernels/check.hpp"

#include <cmath>

namespace penstock::actors {

// -- onto the stream -----------------------------------------------------------------

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
  const auto update = planner::update_of(run_->plan, a.stage, a.minibatch);
  auto& sum = gradients_[update];
  if (!sum) sum = std::make_shared<std::vector<tensor>>(unit_->layers->parameters().size());
  job->gradients = sum;
  if (buckets_ && !cursor_.has_backward_for(a.stage, update)) job->layer_done = bucket_sender(update, sum);
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

void stage_replica::send_activation(stage_job& job) {
  activation_msg m{job.key, job.version, job.samples, {}};
  m.tensors = with_names(unit_->layers->whole(), unit_->layers->outputs(), std::move(job.outputs));
  send_tensors(links_.next, std::move(m), unit_->index + 1);
}

void stage_replica::finish_forward(stage_job& job) {
  if (unit_->is_last) {
    check_loss(job);
    caf::anon_send(links_.metrics, loss_msg{job.key, job.metrics});
    return;
  }
  send_activation(job);
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

void stage_replica::finish_evaluation(stage_job& job) {
  if (unit_->is_last) {
    caf::anon_send(links_.metrics, loss_msg{job.key, job.metrics});
    return_credit(job.key);
    return;
  }
  send_activation(job);
}

} // namespace penstock::actors
