// Applies a stage's updates, one after another, and hands out the new weight versions.
#include "actors/trace/recorder.hpp"
#include "actors/update_actors.hpp"
#include "kernels/check.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

#include <map>

namespace penstock::actors {

/// One update on its way: gradient sum, clip factor, new version.
struct update_job {
  gradient_sum_msg sum;
  update_order order;
  std::vector<double> squares;
  weights_ptr weights;
  std::int64_t segment = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};
struct squared_msg {
  std::shared_ptr<update_job> job;
  std::exception_ptr failure;
};
struct updated_msg {
  std::shared_ptr<update_job> job;
  std::exception_ptr failure;
};

} // namespace penstock::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::squared_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::updated_msg)

namespace penstock::actors {

namespace {

trace_record record_of(const update_job& job, const stage_unit& unit) {
  trace_record r;
  r.kind = span_kind::update;
  r.stage = static_cast<std::int16_t>(unit.index);
  r.replica = static_cast<std::int16_t>(unit.local.front());
  r.segment = static_cast<std::int32_t>(job.segment);
  r.begin_ns = job.begin_ns;
  r.end_ns = job.end_ns;
  r.minibatch = job.order.first_minibatch;
  r.version_read = job.weights->version - 1;
  r.version_written = job.weights->version;
  return r;
}

class stage_optimizer {
public:
  void start(caf::event_based_actor* self, context_ptr context, int stage) {
    self_ = self;
    context_ = std::move(context);
    unit_ = &context_->services.parts.stages.at(static_cast<std::size_t>(stage));
    who_ = "optimizer of stage " + std::to_string(stage);
  }
  void connect(const connect_optimizer_msg& m) {
    replicas_ = m.replicas;
    clipper_ = m.clipper;
  }
  void begin(const begin_segment_msg& m);
  void truncate(const truncate_segment_msg& m);
  void take(gradient_sum_msg m);
  void squared(const squared_msg& m);
  void clip(const clip_msg& m);
  void updated(const updated_msg& m);
  std::string describe() const;
  actor_context& context() { return *context_; }
  const std::string& who() const { return who_; }

private:
  void start_update(std::shared_ptr<update_job> job);
  void apply(std::shared_ptr<update_job> job);
  void apply_clipped();
  void report_when_done();
  std::int64_t planned_updates() const { return planner::updates_of(run_->plan, unit_->index); }

  caf::event_based_actor* self_ = nullptr;
  context_ptr context_;
  stage_unit* unit_ = nullptr;
  std::string who_;
  std::vector<stage_actor> replicas_;
  caf::actor clipper_;
  segment_run_ptr run_;
  std::map<std::int64_t, gradient_sum_msg> waiting_; // sums that came before their turn
  std::shared_ptr<update_job> clipping_;             // waits for the global norm
  std::map<std::int64_t, float> factors_;            // by update; the stage's other ranks may be ahead of this one
  std::int64_t next_ = 0;
  std::int64_t done_ = 0;
  bool reported_ = true;
};

void stage_optimizer::begin(const begin_segment_msg& m) {
  run_ = m.run;
  next_ = done_ = 0;
  reported_ = false;
  report_when_done();
}

void stage_optimizer::truncate(const truncate_segment_msg& m) {
  run_ = m.run;
  report_when_done();
}

void stage_optimizer::report_when_done() {
  if (reported_ || done_ < planned_updates()) return;
  reported_ = true;
  caf::anon_send(context_->coordinator, part_done_msg{who_});
}

void stage_optimizer::take(gradient_sum_msg m) {
  waiting_.emplace(m.group, std::move(m));
  while (!clipping_ && !waiting_.empty() && waiting_.begin()->first == next_) {
    auto job = std::make_shared<update_job>();
    job->segment = run_->segment;
    job->sum = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    ++next_;
    start_update(std::move(job));
  }
}

void stage_optimizer::start_update(std::shared_ptr<update_job> job) {
  job->order = order_update(context_->services.options, run_->plan, unit_->index, job->sum.group, run_->first_minibatch,
                            job->sum.minibatches);
  if (context_->services.options.clip_norm <= 0) {
    apply(std::move(job));
    return;
  }
  clipping_ = job;
  // The optimizers of the other ranks that host the stage have the same gradients.
  const auto& parts = context_->services.parts;
  if (parts.where.owner(unit_->index) != parts.rank) {
    apply_clipped();
    return;
  }
  const auto address = caf::actor_cast<caf::actor>(self_);
  unit_->update_stream().post([job](backend& ops) { job->squares = gradient_squares(ops, job->sum.gradients); },
                              [job, address](std::exception_ptr failure) {
                                caf::anon_send(address, squared_msg{job, failure});
                              });
}

void stage_optimizer::squared(const squared_msg& m) {
  if (m.failure) std::rethrow_exception(m.failure);
  caf::anon_send(clipper_, norm_msg{m.job->segment, unit_->index, m.job->sum.group, m.job->squares});
}

void stage_optimizer::clip(const clip_msg& m) {
  check(m.segment == run_->segment && m.group >= next_ - 1, "a clip factor for another update");
  factors_[m.group] = m.factor;
  apply_clipped();
}

void stage_optimizer::apply_clipped() {
  const auto factor = clipping_ ? factors_.find(clipping_->sum.group) : factors_.end();
  if (factor == factors_.end()) return;
  clipping_->order.gradient_scale *= factor->second;
  factors_.erase(factor);
  apply(std::move(clipping_));
}

void stage_optimizer::apply(std::shared_ptr<update_job> job) {
  const auto address = caf::actor_cast<caf::actor>(self_);
  unit_->update_stream().post(
      [context = context_, unit = unit_, job](backend& ops) {
        auto& services = context->services;
        job->begin_ns = trace_recorder::now_ns();
        compute_update(ops, services.parts, *unit, services.options, job->order, job->sum.gradients);
        job->sum.gradients.clear();
        job->weights = unit->weights;
        job->end_ns = trace_recorder::now_ns();
        if (services.trace != nullptr) services.trace->record(record_of(*job, *unit));
      },
      [job, address](std::exception_ptr failure) {
        caf::anon_send(address, updated_msg{job, failure});
      });
}

void stage_optimizer::updated(const updated_msg& m) {
  if (m.failure) std::rethrow_exception(m.failure);
  ++context_->progress;
  const auto version = m.job->sum.group + 1;
  auto weights = std::move(m.job->weights);
  ++done_;
  for (std::size_t r = 0; r + 1 < replicas_.size(); ++r)
    caf::anon_send(replicas_[r], weights_msg{run_->segment, version, weights});
  caf::anon_send(replicas_.back(), weights_msg{run_->segment, version, std::move(weights)});
  report_when_done();
}

std::string stage_optimizer::describe() const {
  if (!run_ || done_ >= planned_updates()) return who_ + " has applied all updates";
  return who_ + " has applied " + std::to_string(done_) + " of " + std::to_string(planned_updates()) + " updates, " +
         std::to_string(next_ - done_) + " under way";
}

caf::behavior optimizer_behavior(caf::stateful_actor<stage_optimizer>* self, context_ptr context, int stage) {
  self->state.start(self, std::move(context), stage);
  const auto run = [self](auto body) { guarded(self->state.context(), self->state.who(), body); };
  return {
      [=](const connect_optimizer_msg& m) { self->state.connect(m); },
      [=](const begin_segment_msg& m) { run([&] { self->state.begin(m); }); },
      [=](const truncate_segment_msg& m) { run([&] { self->state.truncate(m); }); },
      [=](gradient_sum_msg& m) { run([&] { self->state.take(std::move(m)); }); },
      [=](const describe_wait_msg&) {
        caf::anon_send(self->state.context().coordinator, wait_description_msg{self->state.describe()});
      },
      [=](const squared_msg& m) { run([&] { self->state.squared(m); }); },
      [=](const clip_msg& m) { run([&] { self->state.clip(m); }); },
      [=](const updated_msg& m) { run([&] { self->state.updated(m); }); },
  };
}

} // namespace

caf::actor spawn_optimizer(caf::actor_system& system, context_ptr context, int stage) {
  return system.spawn(optimizer_behavior, std::move(context), stage);
}

} // namespace penstock::actors
