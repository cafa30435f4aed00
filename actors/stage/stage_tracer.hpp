// What a stage replica writes into the trace.
#pragma once

#include "actors/stage/stage_work.hpp"
#include "actors/trace/recorder.hpp"
#include "planner/worker_cursor.hpp"

namespace penstock::actors {

/// Does nothing without a recorder. wait_*, received and sent: the actor's handlers; computed: the stream's thread.
class stage_tracer {
public:
  stage_tracer() = default;
  stage_tracer(trace_recorder* recorder, int stage, int replica)
      : recorder_(recorder), stage_(static_cast<std::int16_t>(stage)), replica_(static_cast<std::int16_t>(replica)) {}

  bool is_on() const { return recorder_ != nullptr; }
  void begin_stretch(std::int64_t stretch) { stretch_ = static_cast<std::int32_t>(stretch); }
  /// The replica has nothing to run from now on; a wait for the same reason goes on.
  void wait_begins(const planner::blocked_action& blocked, std::int64_t first_minibatch, bool replicated);
  void wait_ends();
  void received(const message_key& key, std::int64_t bytes, int peer, std::size_t mailbox_depth);
  void sent(const message_key& key, std::int64_t bytes, int peer);
  void computed(const stage_work& job);

private:
  trace_record record_of(span_kind kind) const;
  void instant(span_kind kind, const message_key& key, std::int64_t bytes, int peer, std::int16_t depth);

  trace_recorder* recorder_ = nullptr;
  std::int16_t stage_ = 0;
  std::int16_t replica_ = 0;
  std::int32_t stretch_ = 0;
  trace_record wait_;
  bool waiting_ = false;
};

} // namespace penstock::actors
