// What a trace is made of: spans and waits of a stage replica, in one plain record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::actors {

enum class span_kind : std::uint8_t { forward, backward, update, all_reduce, send, receive, evaluate, load, wait };

/// Why a stage replica had nothing to run.
enum class wait_reason : std::uint8_t { none, no_input, no_credit, version_not_ready, all_reduce };

inline constexpr std::size_t span_kinds = 9;
inline constexpr std::size_t wait_reasons = 5;

/// "forward", "all-reduce", ...; "no input", "version not ready", ...
std::string_view name_of(span_kind kind);
std::string_view name_of(wait_reason reason);

/// One span. Times are nanoseconds of std::chrono::steady_clock. -1 where a field does not apply.
struct trace_record {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t minibatch = -1;    ///< global id; of an update: the first of its group
  std::int64_t version_read = -1; ///< absolute: updates this stage has applied
  std::int64_t version_written = -1;
  std::int64_t bytes = -1;
  std::int32_t microbatch = -1;
  std::int16_t stage = -1; ///< -1: the source; -2: the metrics actor
  std::int16_t replica = 0;
  std::int16_t peer = -1;          ///< the other stage of a send or receive
  std::int16_t mailbox_depth = -1; ///< messages held by the replica when the span began
  std::int32_t segment = -1;       ///< drains so far
  span_kind kind = span_kind::forward;
  wait_reason reason = wait_reason::none;
  friend bool operator==(const trace_record&, const trace_record&) = default;
};

/// What the file says of the run besides its spans.
struct trace_header {
  std::string model;
  std::string schedule;
  int microbatches = 1;
  int window = 0;
  std::vector<int> replicas;
  std::vector<std::int64_t> credits;
  std::vector<std::string> stage_layers; ///< "conv1 .. fc1"
  bool stashes_weights = true;
  bool vertical_sync = false;
  std::int64_t first_minibatch = -1; ///< global id of the run's first, after a resume; -1: the least in the trace
  std::int64_t minibatches = 0;      ///< of the run so far when the file was closed; -1 until then
  std::int64_t dropped = 0;
  bool complete = false; ///< closed in order
};

/// "stage 1 replica 0", "stage 1" where a stage has one replica, "the source", "the metrics".
std::string actor_name(const trace_header& header, int stage, int replica);

} // namespace penstock::actors
