// What each forward, backward and update of a run had to wait for, and which of it came last.
#pragma once

#include "actors/trace/messages.hpp"
#include "actors/trace/record.hpp"

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace penstock::actors {

/// The last of what a span needed.
struct span_cause {
  enum class what : std::uint8_t {
    nothing,  ///< the trace knows of none: the run's first, or what it lacks
    previous, ///< the worker was busy with `span`
    message,  ///< of what `span` computed
    version,  ///< that the update `span` wrote
    sum       ///< of gradients, the last of them from the backward `span`
  } kind = what::nothing;
  const trace_record* span = nullptr;
  message_ends message;      ///< of a message, where both its ends were recorded
  std::int64_t ready_ns = 0; ///< when it was there: the message's receive, else the span's end
};

/// Looks up causes. Holds pointers to the records, which must stay.
class span_causes {
public:
  span_causes(const trace_header& header, const std::vector<trace_record>& records,
              const std::vector<message_ends>& messages);

  /// Of a forward, backward or update.
  span_cause of(const trace_record& span) const;
  /// When a first stage's forward had its samples from the source; -1 for other spans and where the trace does not say.
  std::int64_t input_ns(const trace_record& span) const;
  /// The training span that ended last at or before the time; null where none did.
  const trace_record* last_before(std::int64_t time_ns) const;
  /// The first forward or backward of the replica's worker that began at or after the time; null where none did.
  const trace_record* next_on(int stage, int replica, std::int64_t time_ns) const;

private:
  using actions = std::vector<const trace_record*>;
  span_cause cause_of_update(const trace_record& update) const;
  void add_previous(const trace_record& span, span_cause& last) const;
  void add_message(const trace_record& span, span_cause& last) const;
  void add_version(const trace_record& forward, span_cause& last) const;

  std::int64_t group_size(int stage) const;

  const trace_header& header_;
  bool is_grouped_ = false;                          // an update sums a minibatch of every replica
  std::map<std::pair<int, int>, actions> by_worker_; // forwards and backwards, in order of begin
  std::map<std::tuple<int, int, std::int64_t, int, span_kind>, const trace_record*> by_key_; // stretch, stage, micro
  std::map<traced_message, message_ends> messages_;
  std::map<std::tuple<int, std::int64_t, int>, std::int64_t> inputs_; // by stretch and micro-batch
  std::map<std::pair<int, std::int64_t>, actions> updates_;           // by stage and version written
  actions by_end_;
};

} // namespace penstock::actors
