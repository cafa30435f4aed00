// Carries out what an optimizer's core decides: sums, norms and updates on the stream, versions to the replicas.
#include "actors/optimizer/optimizer_actor.hpp"

#include "actors/ranks/rank_sums.hpp"
#include "actors/stage/places.hpp"
#include "actors/stage/stage_compute.hpp"
#include "actors/stage/stage_copies.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>

namespace penstock::actors {

namespace {

class optimizer_shell {
public:
  void start(caf::event_based_actor* self, context_ptr context, int stage, stage_weights owned,
             std::shared_ptr<const bucket_cuts> buckets);
  void connect(connect_optimizer_msg m) {
    replicas_ = std::move(m.replicas);
    clipper_ = std::move(m.clipper);
    sharers_ = std::move(m.sharers);
  }
  void take(const begin_training_msg& m) {
    run_ = m.run;
    carry_out(core_->on(m));
  }
  template <class Message>
  void take(Message m) {
    carry_out(core_->on(std::move(m)));
  }
  void take(summed_msg m) {
    if (m.failure) std::rethrow_exception(m.failure);
    ++context_->progress;
    record_sum(*m.sum, m.begun_ns);
    carry_out(core_->on(std::move(*m.sum)));
  }
  void take(shared_msg m) {
    if (m.failure) std::rethrow_exception(m.failure);
    carry_out(core_->shared(std::move(*m.uses)));
  }
  void take(const squared_msg& m) {
    if (m.failure) std::rethrow_exception(m.failure);
    carry_out(core_->squared(*m.job));
  }
  void take(const updated_msg& m) {
    if (m.failure) std::rethrow_exception(m.failure);
    ++context_->progress;
    carry_out(core_->updated(*m.job));
  }
  void take(const collect_msg& m);
  std::string describe() const { return core_->describe(); }
  actor_context& context() { return *context_; }
  const std::string& who() const { return who_; }

private:
  template <class Effects>
  void carry_out(Effects effects) {
    for (auto& e : effects)
      std::visit([this](auto& one) { carry_out_one(one); }, e);
  }
  void carry_out_one(sum_replicas& e);
  void carry_out_one(const reduce_bucket& e);
  void carry_out_one(const forget_reductions_before& e) { sums_->forget_before(e.stretch); }
  void carry_out_one(const send_weights& e) {
    for (const auto& r : replicas_)
      caf::anon_send(r, e.message);
  }
  void carry_out_one(share_uses& e);
  void carry_out_one(const send_uses& e) {
    for (const auto& s : sharers_)
      caf::anon_send(s, e.message);
  }
  void carry_out_one(const compute_squares& e);
  void carry_out_one(send_norm& e) { caf::anon_send(clipper_, std::move(e.message)); }
  void carry_out_one(const compute_update_of& e);
  void carry_out_one(const updates_are_done&) { caf::anon_send(context_->coordinator, part_done_msg{}); }
  // `check`: what is to be made of it when it is complete.
  template <class Work, class Check, class Done>
  void post(Work work, Check check, Done done) {
    auto& on = unit_->first_local();
    work_line::post(*on.work, on.line, std::move(work), std::move(check), std::move(done));
  }
  void record_sum(const reduced_msg& sum, std::int64_t begun_ns) const;
  caf::actor address() const { return caf::actor_cast<caf::actor>(self_); }

  caf::event_based_actor* self_ = nullptr;
  context_ptr context_;
  stage_unit* unit_ = nullptr;
  std::string who_;
  std::vector<worker_actor> replicas_;
  caf::actor clipper_;
  std::vector<caf::actor> sharers_;
  std::vector<shared_tensor> shared_; // with other stages
  stretch_ptr run_;
  std::shared_ptr<const bucket_cuts> buckets_;
  std::shared_ptr<rank_sums> sums_; // where the stage's replicas are on several ranks
  std::optional<optimizer_core> core_;
};

void optimizer_shell::start(caf::event_based_actor* self, context_ptr context, int stage, stage_weights owned,
                            std::shared_ptr<const bucket_cuts> buckets) {
  self_ = self;
  context_ = std::move(context);
  who_ = "optimizer of stage " + std::to_string(stage);
  auto& parts = context_->services.built;
  unit_ = &parts.stages.at(static_cast<std::size_t>(stage));
  std::unique_ptr<gradient_reducer> reducer;
  buckets_ = std::move(buckets);
  if (buckets_) {
    sums_ = std::make_shared<rank_sums>(context_, stage, *buckets_);
    reducer = make_rank_reducer(unit_->local, unit_->layers->parameters().size(), *buckets_);
  } else {
    reducer = make_local_reducer(static_cast<int>(unit_->replicas.size()));
  }
  shared_ = shared_tensors(parts, stage);
  core_.emplace(optimizer_place{stage, parts.where.owner(stage) == parts.rank, shared_}, context_->services.options,
                std::move(owned), std::move(reducer));
}

void optimizer_shell::carry_out_one(sum_replicas& e) {
  post([sum = std::move(e.sum),
        replicas = std::move(e.gradients)](backend& ops) { *sum = sum_gradients(ops, replicas); },
       [] {},
       [to = address()](std::exception_ptr failure) {
         if (failure) caf::anon_send(to, summed_msg{nullptr, 0, std::move(failure)});
       });
}

void optimizer_shell::carry_out_one(const reduce_bucket& e) {
  sums_->start(e, [to = address()](auto sum, std::int64_t begun_ns, std::exception_ptr failure) {
    caf::anon_send(to, summed_msg{std::move(sum), begun_ns, std::move(failure)});
  });
}

void optimizer_shell::record_sum(const reduced_msg& sum, std::int64_t begun_ns) const {
  auto* trace = context_->services.trace;
  if (trace == nullptr || !run_ || sum.stretch != run_->number) return;
  trace_record r;
  r.kind = span_kind::all_reduce;
  r.stage = static_cast<std::int16_t>(unit_->index);
  r.replica = static_cast<std::int16_t>(unit_->local.front());
  r.stretch = static_cast<std::int32_t>(run_->number);
  r.begin_ns = begun_ns;
  r.end_ns = trace_recorder::now_ns();
  const auto replicas = static_cast<std::int64_t>(unit_->replicas.size());
  r.minibatch = run_->first_minibatch + (run_->schedule.updates.per_minibatch_group ? sum.group * replicas : sum.group);
  r.bytes = static_cast<std::int64_t>((*buckets_)[sum.bucket].bytes);
  trace->record(r);
}

// The update goes on when they are there: other stages read them.
void optimizer_shell::carry_out_one(share_uses& e) {
  auto uses = std::make_shared<tie_msg>(std::move(e.message));
  post([uses, job = e.job, shared = shared_](backend&) { uses->tensors = uses_of(shared, *job->gradients); }, [] {},
       [uses, to = address()](std::exception_ptr failure) {
         caf::anon_send(to, shared_msg{uses, std::move(failure)});
       });
}

void optimizer_shell::carry_out_one(const compute_squares& e) {
  post(
      [job = e.job, unit = unit_](backend& ops) {
        add_uses(ops, *unit->layers, *job->gradients, job->across);
        gradient_squares(ops, *job->gradients, job->squares, job->tells);
        job->tells.fetch(ops);
      },
      [job = e.job] { job->tells.settle(); },
      [job = e.job, to = address()](std::exception_ptr failure) {
        caf::anon_send(to, squared_msg{job, std::move(failure)});
      });
}

trace_record record_of(const update_work& job, const stage_unit& unit) {
  trace_record r;
  r.kind = span_kind::update;
  r.stage = static_cast<std::int16_t>(unit.index);
  r.replica = static_cast<std::int16_t>(unit.local.front());
  r.stretch = static_cast<std::int32_t>(job.stretch);
  r.begin_ns = job.begin->time_ns();
  r.end_ns = job.end->time_ns();
  r.minibatch = job.order.first_minibatch;
  r.version_read = job.made->version - 1;
  r.version_written = job.made->version;
  return r;
}

// The stream's thread sends the version to the other replicas itself: they wait for it.
void optimizer_shell::carry_out_one(const compute_update_of& e) {
  const weights_msg made{e.job->stretch, unit_->index, e.job->group + 1, e.job->made};
  post(
      [context = context_, unit = unit_, job = e.job](backend& ops) {
        auto& services = context->services;
        job->begin = ops.record();
        // Whether it was finite is told with the next forward where that is on this stream, which spares a fetch.
        add_uses(ops, *unit->layers, *job->gradients, job->across);
        const bool is_told_later = unit->replicas.size() == 1;
        compute_update(ops, services.built, *unit, services.options, job->order, *job->gradients, *job->owned,
                       job->in_place, is_told_later ? unit->first_local().unread : job->tells, job->made);
        if (is_told_later) unit->first_local().unread_version = job->made->version;
        job->tells.fetch(ops);
        job->gradients.reset();
        job->end = ops.record();
      },
      [context = context_, unit = unit_, job = e.job] {
        job->tells.settle();
        if (auto* trace = context->services.trace) trace->record(record_of(*job, *unit));
      },
      [job = e.job, stage = unit_->index, replicas = replicas_, to = address()](std::exception_ptr failure) {
        const auto version = std::move(job->made);
        for (std::size_t r = 1; !failure && r < replicas.size(); ++r)
          caf::anon_send(replicas[r], weights_msg{job->stretch, stage, job->group + 1, version});
        caf::anon_send(to, updated_msg{job, std::move(failure)});
      });
  caf::anon_send(replicas_.front(), made);
}

void optimizer_shell::take(const collect_msg& m) {
  auto answer = std::make_shared<collected_msg>(collected_msg{unit_->index, {}, {}});
  auto tells = std::make_shared<outcome>();
  unit_->update_stream().post(
      [answer, tells, m, context = context_, unit = unit_, owned = core_->owned()](backend& ops) {
        tells->adopt(unit->first_local().unread);
        answer->copy = copy_learnt(ops, context->services.built, *unit, *owned, m.what, m.after, *m.pool, *tells);
        tells->fetch(ops);
      },
      [answer, tells, reply_to = m.reply_to, context = context_, unit = unit_, owned = core_->owned(),
       who = who_](std::exception_ptr failure) {
        guarded(*context, who, [&] {
          if (failure) std::rethrow_exception(failure);
          tells->settle();
          answer->measures = measure_stage(*unit, *owned);
          caf::anon_send(reply_to, std::move(*answer));
        });
      });
}

caf::behavior optimizer_behavior(caf::stateful_actor<optimizer_shell>* self, context_ptr context, int stage,
                                 stage_weights owned, std::shared_ptr<const bucket_cuts> buckets) {
  self->state.start(self, std::move(context), stage, std::move(owned), std::move(buckets));
  const auto take = [self](auto& m) {
    guarded(self->state.context(), self->state.who(), [&] { self->state.take(std::move(m)); });
  };
  return {
      [=](connect_optimizer_msg& m) { self->state.connect(std::move(m)); },
      [=](begin_training_msg& m) { take(m); },
      [=](end_after_msg& m) { take(m); },
      [=](lend_weights_msg& m) { take(m); },
      [=](gradient_share_msg& m) { take(m); },
      [=](gradient_bucket_msg& m) { take(m); },
      [=](summed_msg& m) { take(m); },
      [=](tie_msg& m) { take(m); },
      [=](shared_msg& m) { take(m); },
      [=](squared_msg& m) { take(m); },
      [=](clip_msg& m) { take(m); },
      [=](updated_msg& m) { take(m); },
      [=](collect_msg& m) { take(m); },
      [=](const describe_wait_msg&) {
        caf::anon_send(self->state.context().coordinator, wait_description_msg{self->state.describe()});
      },
  };
}

} // namespace

caf::actor spawn_optimizer(caf::actor_system& system, context_ptr context, int stage, stage_weights owned,
                           std::shared_ptr<const bucket_cuts> buckets) {
  return system.spawn(optimizer_behavior, std::move(context), stage, std::move(owned), std::move(buckets));
}

} // namespace penstock::actors
