// What a source writes into the trace.
#pragma once

#include "actors/messages.hpp"
#include "actors/trace/recorder.hpp"

#include <cstdint>

namespace penstock::actors {

/// While training: a send to stage 0 for each micro-batch admitted, and what the next one waits for. Does nothing
/// without a recorder. Used by the source's handlers alone.
class source_tracer {
public:
  source_tracer() = default;
  explicit source_tracer(trace_recorder* recorder) : recorder_(recorder) {}

  /// The next micro-batch waits from now on; a wait for the same reason goes on.
  void wait_begins(const message_key& next, wait_reason why);
  void wait_ends();
  void admitted(const message_key& key, std::int64_t bytes);

private:
  trace_recorder* recorder_ = nullptr;
  trace_record wait_;
  bool waiting_ = false;
};

} // namespace penstock::actors
