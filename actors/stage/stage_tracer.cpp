// Spans and waits of a stage replica.
#include "actors/stage/stage_tracer.hpp"

#include <algorithm>

namespace penstock::actors {

namespace {

wait_reason reason_of(planner::block_reason why, bool replicated) {
  switch (why) {
  case planner::block_reason::no_credit:
    return wait_reason::no_credit;
  case planner::block_reason::no_version:
    return replicated ? wait_reason::all_reduce : wait_reason::version_not_ready;
  default:
    return wait_reason::no_input;
  }
}

span_kind kind_of(stage_work::kind what) {
  switch (what) {
  case stage_work::kind::forward:
    return span_kind::forward;
  case stage_work::kind::backward:
    return span_kind::backward;
  case stage_work::kind::backward_input:
    return span_kind::backward_input;
  case stage_work::kind::backward_weight:
    return span_kind::backward_weight;
  case stage_work::kind::evaluate:
    break;
  }
  return span_kind::evaluate;
}

} // namespace

trace_record stage_tracer::record_of(span_kind kind) const {
  trace_record r;
  r.kind = kind;
  r.stage = stage_;
  r.replica = replica_;
  r.stretch = stretch_;
  return r;
}

void stage_tracer::wait_begins(const planner::blocked_action& blocked, std::int64_t first_minibatch, bool replicated) {
  if (recorder_ == nullptr) return;
  const auto reason = reason_of(blocked.why, replicated);
  if (waiting_ && wait_.reason == reason) return;
  wait_ends();
  wait_ = record_of(span_kind::wait);
  wait_.reason = reason;
  wait_.begin_ns = trace_recorder::now_ns();
  if (blocked.what.kind != planner::action_kind::update) {
    wait_.minibatch = first_minibatch + blocked.what.minibatch;
    wait_.microbatch = blocked.what.microbatch;
  }
  waiting_ = true;
}

void stage_tracer::wait_ends() {
  if (!waiting_) return;
  waiting_ = false;
  wait_.end_ns = trace_recorder::now_ns();
  recorder_->record(wait_);
}

void stage_tracer::instant(span_kind kind, const message_key& key, std::int64_t bytes, int peer, std::int16_t depth) {
  if (recorder_ == nullptr || key.mode != phase::training) return;
  auto r = record_of(kind);
  r.begin_ns = r.end_ns = trace_recorder::now_ns();
  r.minibatch = key.minibatch;
  r.microbatch = key.microbatch;
  r.bytes = bytes;
  r.peer = static_cast<std::int16_t>(peer);
  r.mailbox_depth = depth;
  recorder_->record(r);
}

void stage_tracer::received(const message_key& key, std::int64_t bytes, int peer, std::size_t mailbox_depth) {
  instant(span_kind::receive, key, bytes, peer, static_cast<std::int16_t>(std::min<std::size_t>(mailbox_depth, 32767)));
}

void stage_tracer::sent(const message_key& key, std::int64_t bytes, int peer) {
  instant(span_kind::send, key, bytes, peer, -1);
}

void stage_tracer::computed(const stage_work& job) {
  if (recorder_ == nullptr) return;
  auto r = record_of(kind_of(job.what));
  r.begin_ns = job.begin->time_ns();
  r.end_ns = job.end->time_ns();
  r.minibatch = job.key.minibatch;
  r.microbatch = job.key.microbatch;
  r.version_read = job.version;
  r.stretch = static_cast<std::int32_t>(job.key.stretch);
  recorder_->record(r);
}

} // namespace penstock::actors
