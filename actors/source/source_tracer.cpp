// Admissions and waits of a source.
#include "actors/source/source_tracer.hpp"

namespace penstock::actors {

namespace {

trace_record record_of(span_kind kind, const message_key& key) {
  trace_record r; // of the source, unless a stage is set
  r.kind = kind;
  r.minibatch = key.minibatch;
  r.microbatch = key.microbatch;
  r.stretch = static_cast<std::int32_t>(key.stretch);
  r.begin_ns = r.end_ns = trace_recorder::now_ns();
  return r;
}

} // namespace

void source_tracer::wait_begins(const message_key& next, wait_reason why) {
  if (recorder_ == nullptr || (waiting_ && wait_.reason == why)) return;
  wait_ends();
  if (next.mode != phase::training) return;
  wait_ = record_of(span_kind::wait, next);
  wait_.reason = why;
  waiting_ = true;
}

void source_tracer::wait_ends() {
  if (!waiting_) return;
  waiting_ = false;
  wait_.end_ns = trace_recorder::now_ns();
  recorder_->record(wait_);
}

void source_tracer::admitted(const message_key& key, std::int64_t bytes) {
  if (recorder_ == nullptr || key.mode != phase::training) return;
  auto r = record_of(span_kind::send, key);
  r.peer = 0;
  r.bytes = bytes;
  recorder_->record(r);
}

} // namespace penstock::actors
