// Sends and receives of one message, brought together.
#pragma once

#include "actors/trace/record.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::actors {

/// What names a message between two stages, whichever end recorded it. An activation goes to a later stage, a gradient
/// to an earlier one.
struct traced_message {
  std::int32_t stretch = -1;
  std::int64_t minibatch = -1;
  std::int32_t microbatch = -1;
  std::int16_t from = -1;
  std::int16_t to = -1;
  friend auto operator<=>(const traced_message&, const traced_message&) = default;
};

/// Nothing for a record that is no send or receive between two stages: of what comes from the source or goes to the
/// metrics one end records nothing.
std::optional<traced_message> key_of_message(const trace_record& r);

/// Where a message was sent and where it was received; null where the trace does not say.
struct message_ends {
  const trace_record* send = nullptr;
  const trace_record* receive = nullptr;
  /// From the first byte handed over until the receiver had it. Both ends must be there.
  std::int64_t transfer_ns() const { return receive->begin_ns - send->begin_ns; }
};

/// Every message, in the order of keys. One that was sent or received twice stands there twice, its further ends in the
/// order of time. The pointers are to `records`.
std::vector<message_ends> pair_messages(const std::vector<trace_record>& records);

} // namespace penstock::actors
