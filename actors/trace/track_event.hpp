// The numbers of Perfetto's TrackEvent protobuf and the names we use in it, shared by what writes a trace and what
// reads it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

/// Field numbers of perfetto.protos (protos/perfetto/trace/perfetto_trace.proto), as the public schema has them.
namespace penstock::actors::track_event {

namespace trace {
inline constexpr std::uint32_t packet = 1;
}

namespace packet {
inline constexpr std::uint32_t timestamp = 8;
inline constexpr std::uint32_t sequence_id = 10; // trusted_packet_sequence_id
inline constexpr std::uint32_t event = 11;       // track_event
inline constexpr std::uint32_t interned = 12;    // interned_data
inline constexpr std::uint32_t sequence_flags = 13;
inline constexpr std::uint32_t descriptor = 60; // track_descriptor
inline constexpr std::uint32_t state_cleared = 1;
inline constexpr std::uint32_t needs_state = 2;
} // namespace packet

namespace event {
inline constexpr std::uint32_t category_iids = 3;
inline constexpr std::uint32_t annotations = 4; // debug_annotations
inline constexpr std::uint32_t type = 9;
inline constexpr std::uint32_t name_iid = 10;
inline constexpr std::uint32_t track = 11; // track_uuid
inline constexpr std::uint32_t categories = 22;
inline constexpr std::uint32_t name = 23;
inline constexpr std::uint32_t counter_value = 30;
inline constexpr std::uint32_t flow_ids = 47;             // fixed64
inline constexpr std::uint32_t terminating_flow_ids = 48; // fixed64
enum type_value : std::int32_t { slice_begin = 1, slice_end = 2, instant = 3, counter = 4 };
} // namespace event

namespace annotation {
inline constexpr std::uint32_t name_iid = 1;
inline constexpr std::uint32_t uint_value = 3;
inline constexpr std::uint32_t int_value = 4;
inline constexpr std::uint32_t string_value = 6;
inline constexpr std::uint32_t name = 10;
} // namespace annotation

namespace descriptor {
inline constexpr std::uint32_t uuid = 1;
inline constexpr std::uint32_t name = 2;
inline constexpr std::uint32_t process = 3;
inline constexpr std::uint32_t parent = 5; // parent_uuid
inline constexpr std::uint32_t counter = 8;
inline constexpr std::uint32_t child_ordering = 11;
inline constexpr std::uint32_t order_rank = 12; // sibling_order_rank
inline constexpr std::int32_t explicit_order = 3;
} // namespace descriptor

namespace process {
inline constexpr std::uint32_t pid = 1;
inline constexpr std::uint32_t name = 6; // process_name
} // namespace process

namespace counter {
inline constexpr std::uint32_t unit = 3;
inline constexpr std::int32_t count = 2; // UNIT_COUNT
} // namespace counter

namespace interned {
inline constexpr std::uint32_t categories = 1; // event_categories
inline constexpr std::uint32_t names = 2;      // event_names
inline constexpr std::uint32_t annotation_names = 3;
inline constexpr std::uint32_t iid = 1; // of every entry
inline constexpr std::uint32_t text = 2;
} // namespace interned

/// Names of the two instant events that carry the header as JSON, and of their annotation.
inline constexpr std::string_view header_event = "penstock.header";
inline constexpr std::string_view end_event = "penstock.end";
inline constexpr std::string_view header_annotation = "header";

/// Names of a span's annotations; a field's interned id is its place here + 1.
enum field : std::uint8_t {
  stage,
  replica,
  minibatch,
  microbatch,
  version_read,
  version_written,
  bytes,
  stretch,
  peer,
  mailbox_depth,
  reason,
  rank,
  fields
};
inline constexpr std::array<std::string_view, fields> field_names{
    "stage", "replica", "minibatch", "microbatch",    "version_read", "version_written",
    "bytes", "stretch", "peer",      "mailbox_depth", "reason",       "rank"};

} // namespace penstock::actors::track_event
