// TrackEvent packets back into records; trusts no byte of them.
#include "actors/trace/packet_reader.hpp"

#include "actors/trace/header_json.hpp"
#include "actors/trace/plan_epochs.hpp"
#include "actors/trace/record_contract.hpp"
#include "actors/trace/track_event.hpp"

#include <protozero/pbf_reader.hpp>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace penstock::actors {

namespace te = track_event;
using protozero::data_view;
using protozero::pbf_reader;
using protozero::tag_and_type;

namespace {

// Fields are matched with their wire type, so one of another type is skipped like an unknown one.
constexpr auto varint = protozero::pbf_wire_type::varint;
constexpr auto bytes_type = protozero::pbf_wire_type::length_delimited;

std::string_view view(data_view v) {
  return {v.data(), v.size()};
}

using interned_table = packet_reader::interned_table;
using sequence_state = packet_reader::sequence_state;

} // namespace

/// A debug annotation of a span or of the header.
struct annotation_value {
  std::string_view name;
  std::optional<std::int64_t> number;
  std::string_view text;
};

/// What we read of a TrackEvent.
struct event_fields {
  std::int64_t type = 0;
  std::uint64_t track = 0;
  std::string_view name;
  std::string_view category;
  std::vector<annotation_value> annotations;
};

namespace {

std::string_view find(const interned_table& table, std::uint64_t iid) {
  const auto at = table.find(iid);
  return at == table.end() ? std::string_view() : std::string_view(at->second);
}

void read_interned(pbf_reader message, sequence_state& names) {
  while (message.next()) {
    interned_table* table = nullptr;
    switch (message.tag_and_type()) {
    case tag_and_type(te::interned::categories, bytes_type):
      table = &names.categories;
      break;
    case tag_and_type(te::interned::names, bytes_type):
      table = &names.names;
      break;
    case tag_and_type(te::interned::annotation_names, bytes_type):
      table = &names.annotation_names;
      break;
    default:
      message.skip();
      continue;
    }
    std::uint64_t iid = 0;
    std::string text;
    pbf_reader entry = message.get_message();
    while (entry.next()) {
      switch (entry.tag_and_type()) {
      case tag_and_type(te::interned::iid, varint):
        iid = entry.get_uint64();
        break;
      case tag_and_type(te::interned::text, bytes_type):
        text = entry.get_string();
        break;
      default:
        entry.skip();
      }
    }
    (*table)[iid] = std::move(text);
  }
}

annotation_value read_annotation(pbf_reader message, const sequence_state& names) {
  annotation_value value;
  while (message.next()) {
    switch (message.tag_and_type()) {
    case tag_and_type(te::annotation::name_iid, varint):
      value.name = find(names.annotation_names, message.get_uint64());
      break;
    case tag_and_type(te::annotation::name, bytes_type):
      value.name = view(message.get_view());
      break;
    case tag_and_type(te::annotation::int_value, varint):
      value.number = message.get_int64();
      break;
    case tag_and_type(te::annotation::uint_value, varint): {
      const auto number = message.get_uint64();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw bad_packet{"an annotation of " + std::to_string(number)};
      value.number = static_cast<std::int64_t>(number);
      break;
    }
    case tag_and_type(te::annotation::string_value, bytes_type):
      value.text = view(message.get_view());
      break;
    default:
      message.skip();
    }
  }
  return value;
}

event_fields read_event(pbf_reader message, const sequence_state& names) {
  event_fields e;
  while (message.next()) {
    switch (message.tag_and_type()) {
    case tag_and_type(te::event::type, varint):
      e.type = message.get_enum();
      break;
    case tag_and_type(te::event::track, varint):
      e.track = message.get_uint64();
      break;
    case tag_and_type(te::event::name, bytes_type):
      e.name = view(message.get_view());
      break;
    case tag_and_type(te::event::name_iid, varint):
      e.name = find(names.names, message.get_uint64());
      break;
    case tag_and_type(te::event::categories, bytes_type):
      e.category = view(message.get_view());
      break;
    case tag_and_type(te::event::category_iids, varint):
      e.category = find(names.categories, message.get_uint64());
      break;
    case tag_and_type(te::event::category_iids, bytes_type): // packed by a tool that rewrote the file
      for (const auto iid : message.get_packed_uint64())
        e.category = find(names.categories, iid);
      break;
    case tag_and_type(te::event::annotations, bytes_type):
      e.annotations.push_back(read_annotation(message.get_message(), names));
      break;
    default:
      message.skip();
    }
  }
  return e;
}

std::optional<span_kind> kind_named(std::string_view name) {
  for (std::size_t i = 0; i < span_kinds; ++i)
    if (name == name_of(static_cast<span_kind>(i))) return static_cast<span_kind>(i);
  return std::nullopt;
}

wait_reason reason_named(std::string_view name) {
  for (std::size_t i = 0; i < wait_reasons; ++i)
    if (name == name_of(static_cast<wait_reason>(i))) return static_cast<wait_reason>(i);
  throw bad_packet{"a wait for an unknown reason"};
}

trace_record record_of(const event_fields& e) {
  trace_record r;
  r.kind = kind_named(e.category).value();
  for (const auto& a : e.annotations) {
    const auto at = std::find(te::field_names.begin(), te::field_names.end(), a.name);
    const auto named = static_cast<te::field>(at - te::field_names.begin());
    if (named == te::reason) r.reason = reason_named(a.text);
    for_each_number(r, [&](te::field field, auto& number, const number_range& range) {
      if (field != named) return; // another tool's annotations are no field
      if (!a.number || !range.holds(*a.number))
        throw bad_packet{"annotation '" + std::string(a.name) + "' holds " +
                         (a.number ? std::to_string(*a.number) : "no number")};
      number = static_cast<std::remove_reference_t<decltype(number)>>(*a.number);
    });
  }
  return r;
}

} // namespace

void packet_reader::read(std::string_view bytes) {
  std::uint64_t timestamp = 0;
  std::uint64_t sequence = 0;
  std::uint32_t flags = 0;
  std::vector<data_view> interned;
  std::optional<data_view> event;
  pbf_reader packet(bytes.data(), bytes.size());
  while (packet.next()) {
    switch (packet.tag_and_type()) {
    case tag_and_type(te::packet::timestamp, varint):
      timestamp = packet.get_uint64();
      break;
    case tag_and_type(te::packet::sequence_id, varint):
      sequence = packet.get_uint32();
      break;
    case tag_and_type(te::packet::sequence_flags, varint):
      flags = packet.get_uint32();
      break;
    case tag_and_type(te::packet::interned, bytes_type):
      interned.push_back(packet.get_view());
      break;
    case tag_and_type(te::packet::event, bytes_type):
      event = packet.get_view();
      break;
    default:
      packet.skip();
    }
  }
  auto& names = sequences_[sequence];
  if ((flags & te::packet::state_cleared) != 0) names = {};
  for (const auto& table : interned)
    read_interned(pbf_reader(table), names);
  if (event) handle(read_event(pbf_reader(*event), names), timestamp);
}

void packet_reader::handle_header(std::string_view text) {
  trace_header parsed = parse_header(text);
  if (header && (parsed.plan != header->plan || parsed.rank != header->rank ||
                 parsed.hosts.size() != header->hosts.size() || !continues(parsed.changes, header->changes)))
    throw bad_packet{"two headers that contradict each other"};
  header = std::move(parsed);
}

void packet_reader::handle(const event_fields& e, std::uint64_t timestamp) {
  if (e.type == te::event::instant && (e.name == te::header_event || e.name == te::end_event)) {
    for (const auto& a : e.annotations)
      if (a.name == te::header_annotation) handle_header(a.text);
    return;
  }
  if (e.type != te::event::slice_begin && e.type != te::event::slice_end) return;
  if (timestamp > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw bad_packet{"a time of " + std::to_string(timestamp) + " ns"};
  const auto time = static_cast<std::int64_t>(timestamp);
  auto& stack = stacks_[e.track];
  if (e.type == te::event::slice_begin) {
    stack.emplace_back();
    ++open_;
    if (!kind_named(e.category)) return; // a slice of another tool; its end must still be matched
    if (!header) throw bad_packet{"a span before the header: not a Penstock trace"};
    auto r = record_of(e);
    r.begin_ns = r.end_ns = time;
    if (auto what = misfit(r, *header); !what.empty()) throw bad_packet{std::move(what)};
    stack.back() = r;
    return;
  }
  if (stack.empty()) throw bad_packet{"the end of a span that did not begin"};
  if (auto& r = stack.back()) {
    if (time < r->begin_ns) throw bad_packet{"a span that ends before it begins"};
    r->end_ns = time;
    records.push_back(*r);
  }
  stack.pop_back();
  --open_;
}

} // namespace penstock::actors
