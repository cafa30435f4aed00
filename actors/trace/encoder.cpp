// Packets of Perfetto's TrackEvent, written with protozero.
#include "actors/trace/encoder.hpp"

#include "actors/trace/header_json.hpp"
#include "actors/trace/plan_epochs.hpp"
#include "actors/trace/record_contract.hpp"
#include "actors/trace/track_event.hpp"

#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <array>

namespace penstock::actors {

namespace te = track_event;
using protozero::pbf_writer;

namespace {

constexpr std::uint32_t sequence = 1;

/// One TracePacket; whoever holds it fills it, and its length is written when it goes.
struct packet_writer {
  pbf_writer trace;
  pbf_writer packet;
  explicit packet_writer(std::string& out) : trace(out), packet(trace, te::trace::packet) {
    packet.add_uint32(te::packet::sequence_id, sequence);
  }
};

void annotate(pbf_writer& event, te::field field, std::int64_t value) {
  if (value == -1) return; // -1: the field does not apply
  pbf_writer a(event, te::event::annotations);
  a.add_uint64(te::annotation::name_iid, field + 1U);
  a.add_int64(te::annotation::int_value, value);
}

} // namespace

trace_encoder::trace_encoder(trace_header header) : header_(std::move(header)) {
  check_header(header_);
  header_.minibatches = -1;
  header_.dropped = 0;
  header_.complete = false;
  const epoch_headers headers(without_hosts(header_));
  for (std::size_t epoch = 0; epoch < epoch_count(header_); ++epoch)
    add_epoch(headers.at(epoch));
}

void trace_encoder::add_epoch(const trace_header& header) {
  auto& made = epochs_.emplace_back(epoch_view{header, 1});
  if (epochs_.size() == 1) return;
  const auto& before = epochs_[epochs_.size() - 2];
  made.order = before.order + static_cast<int>(before.header.plan.stages.size()) + 1;
}

void trace_encoder::begin_process(std::string& out, int process, std::int32_t process_id) {
  const auto uuid = process_uuids_[process] = ++next_uuid_;
  std::string name = "penstock";
  if (process >= 0) name += " rank " + std::to_string(process);
  if (process >= 0 && static_cast<std::size_t>(process) < header_.hosts.size())
    name += " on " + header_.hosts[static_cast<std::size_t>(process)];
  packet_writer p(out);
  pbf_writer d(p.packet, te::packet::descriptor);
  d.add_uint64(te::descriptor::uuid, uuid);
  d.add_int32(te::descriptor::child_ordering, te::descriptor::explicit_order);
  pbf_writer of(d, te::descriptor::process);
  of.add_int32(te::process::pid, process_id);
  of.add_string(te::process::name, name);
}

void trace_encoder::begin(std::string& out, std::int64_t now_ns, std::int32_t process_id) {
  // Uuids only have to differ within a file and, for traces that are opened together, between runs.
  next_uuid_ = static_cast<std::uint64_t>(now_ns) << 16U;
  {
    packet_writer p(out);
    p.packet.add_uint32(te::packet::sequence_flags, te::packet::state_cleared | te::packet::needs_state);
    pbf_writer interned(p.packet, te::packet::interned);
    const auto add = [&](std::uint32_t table, std::uint64_t iid, std::string_view text) {
      pbf_writer entry(interned, table);
      entry.add_uint64(te::interned::iid, iid);
      entry.add_string(te::interned::text, text.data(), text.size());
    };
    for (std::size_t i = 0; i < te::field_names.size(); ++i)
      add(te::interned::annotation_names, i + 1, te::field_names[i]);
    for (std::size_t i = 0; i < span_kinds; ++i)
      add(te::interned::categories, i + 1, name_of(static_cast<span_kind>(i)));
  }
  if (is_merged(header_)) {
    // Process ids of several hosts may be the same ones, and 0 is the idle process.
    for (int rank = 0; rank < rank_count(header_); ++rank)
      begin_process(out, rank, rank + 1);
  } else {
    begin_process(out, header_.rank, process_id);
    if (!names_ranks(header_)) tracks_of(out, header_.rank, 0, -1, 0);
  }
  for (std::size_t epoch = 0; epoch < epochs_.size(); ++epoch)
    describe_replicas(out, epoch);
  instant(out, now_ns, te::header_event);
}

void trace_encoder::describe_replicas(std::string& out, std::size_t epoch) {
  const auto& header = epochs_[epoch].header;
  for (std::size_t s = 0; s < header.plan.stages.size(); ++s)
    for (int r = 0; r < header.plan.stages[s].replicas; ++r) {
      const int process = rank_of(header, static_cast<int>(s), r);
      if (process_uuids_.contains(process)) tracks_of(out, process, epoch, static_cast<int>(s), r);
    }
}

void trace_encoder::change_plan(std::string& out, trace_plan_epoch next) {
  auto changed = header_;
  changed.changes.push_back(std::move(next));
  check_header(changed);
  header_ = std::move(changed);
  add_epoch(epoch_headers(without_hosts(header_)).at(header_.changes.size()));
  describe_replicas(out, epochs_.size() - 1);
}

void trace_encoder::describe(std::string& out, std::uint64_t uuid, std::uint64_t parent, const std::string& name,
                             int rank, bool is_counter) {
  packet_writer p(out);
  pbf_writer d(p.packet, te::packet::descriptor);
  d.add_uint64(te::descriptor::uuid, uuid);
  d.add_string(te::descriptor::name, name);
  d.add_uint64(te::descriptor::parent, parent);
  d.add_int32(te::descriptor::order_rank, rank);
  if (is_counter) {
    pbf_writer c(d, te::descriptor::counter);
    c.add_int32(te::counter::unit, te::counter::count);
  } else {
    d.add_int32(te::descriptor::child_ordering, te::descriptor::explicit_order);
  }
}

trace_encoder::actor_tracks& trace_encoder::tracks_of(std::string& out, int process, std::size_t epoch, int stage,
                                                      int replica) {
  if (stage < 0) epoch = 0;
  const auto [at, is_new] = tracks_.try_emplace({process, epoch, stage, replica});
  actor_tracks& tracks = at->second;
  if (!is_new) return tracks;
  const auto& [header, order] = epochs_[epoch];
  std::string name = stage == -1 ? "source" : stage == -2 ? "metrics" : "stage " + std::to_string(stage);
  if (stage >= 0 || replica > 0) name += " replica " + std::to_string(replica);
  if (const auto layers = layers_of(header, static_cast<std::size_t>(std::max(0, stage))); stage >= 0 && layers != "-")
    name += " (" + layers + ")";
  if (epoch > 0) name += ", plan epoch " + std::to_string(epoch);
  tracks.uuid = ++next_uuid_;
  // The source first, then the stages in order, the metrics last; the stages of later plans after them.
  const int last_rank = static_cast<int>(header.plan.stages.size()) + 1;
  describe(out, tracks.uuid, process_uuids_.at(process), name, stage == -2 ? last_rank : stage + order, false);
  return tracks;
}

trace_encoder::lane& trace_encoder::lane_for(std::string& out, actor_tracks& tracks, group which,
                                             std::int64_t begin_ns) {
  static constexpr std::array<const char*, groups> names{"compute", "messages", "waits"};
  auto& lanes = tracks.lanes[which];
  const auto free = std::find_if(lanes.begin(), lanes.end(), [&](const lane& l) { return l.last_end <= begin_ns; });
  if (free != lanes.end()) return *free;
  std::string name = names[which];
  if (!lanes.empty()) name += " (" + std::to_string(lanes.size() + 1) + ")";
  lane& made = lanes.emplace_back(lane{++next_uuid_, begin_ns});
  describe(out, made.uuid, tracks.uuid, name, which * 100 + static_cast<int>(lanes.size()), false);
  return made;
}

void trace_encoder::instant(std::string& out, std::int64_t now_ns, std::string_view name) {
  packet_writer p(out);
  p.packet.add_uint64(te::packet::timestamp, static_cast<std::uint64_t>(now_ns));
  pbf_writer e(p.packet, te::packet::event);
  e.add_int32(te::event::type, te::event::instant);
  e.add_uint64(te::event::track, process_uuids_.begin()->second);
  e.add_string(te::event::name, name.data(), name.size());
  pbf_writer a(e, te::event::annotations);
  a.add_string(te::annotation::name, te::header_annotation.data(), te::header_annotation.size());
  a.add_string(te::annotation::string_value, to_json(header_));
}

/// The same from both ends' files: of the message's plan epoch, direction, numbers, sender and receiver.
std::uint64_t trace_encoder::flow_of(const trace_record& r, std::size_t epoch) const {
  constexpr std::uint64_t spread = 0x9e3779b97f4a7c15; // keeps numbers under different plans apart
  const auto& plan = epochs_[epoch].header.plan;
  const auto stages = static_cast<std::uint64_t>(plan.stages.size());
  const bool is_sent = r.kind == span_kind::send;
  const auto from = static_cast<std::uint64_t>(is_sent ? r.stage : r.peer);
  const auto to = static_cast<std::uint64_t>(is_sent ? r.peer : r.stage);
  const auto microbatches = static_cast<std::uint64_t>(plan.microbatches) + 1; // -1, which is none, has its place
  const auto number =
      static_cast<std::uint64_t>(r.minibatch) * microbatches + static_cast<std::uint64_t>(r.microbatch) + 1;
  return ((number * stages + from) * stages + to + 1) ^ (epoch * spread);
}

int trace_encoder::process_of(const trace_record& r, std::size_t epoch) const {
  if (!is_merged(header_)) return header_.rank;
  if (r.rank >= 0) return r.rank;
  return std::max(0, rank_of(epochs_[epoch].header, r.stage, r.replica));
}

std::string trace_encoder::name_of_span(const trace_record& r, std::size_t epoch) const {
  std::string name(r.stage == -1 && r.kind == span_kind::send ? "admit" : name_of(r.kind));
  const auto append = [&](char separator, std::string_view text) {
    name += separator;
    name += text;
  };
  if (r.kind == span_kind::wait) {
    append(' ', name_of(r.reason));
  } else if (r.minibatch >= 0) {
    append(' ', std::to_string(r.minibatch));
    if (epochs_[epoch].header.plan.microbatches > 1 && r.microbatch >= 0) append('.', std::to_string(r.microbatch));
  }
  return name;
}

void trace_encoder::add(std::string& out, const trace_record& r) {
  if (!misfit(r, header_).empty()) {
    ++left_out_;
    return;
  }
  const bool is_message = r.kind == span_kind::send || r.kind == span_kind::receive;
  const auto epoch = epoch_of(header_, r);
  actor_tracks& tracks = tracks_of(out, process_of(r, epoch), epoch, r.stage, r.replica);
  const std::int64_t end_ns = std::max(r.begin_ns, r.end_ns); // a slice cannot end before it begins
  lane& on = lane_for(out, tracks, is_message ? messages : r.kind == span_kind::wait ? waits : compute, r.begin_ns);
  on.last_end = end_ns;
  if (r.mailbox_depth >= 0 && r.mailbox_depth != tracks.last_depth) {
    if (tracks.depth_uuid == 0) {
      tracks.depth_uuid = ++next_uuid_;
      describe(out, tracks.depth_uuid, tracks.uuid, "mailbox depth", groups * 100, true);
    }
    tracks.last_depth = r.mailbox_depth;
    packet_writer p(out);
    p.packet.add_uint64(te::packet::timestamp, static_cast<std::uint64_t>(r.begin_ns));
    pbf_writer e(p.packet, te::packet::event);
    e.add_int32(te::event::type, te::event::counter);
    e.add_uint64(te::event::track, tracks.depth_uuid);
    e.add_int64(te::event::counter_value, r.mailbox_depth);
  }
  {
    packet_writer p(out);
    p.packet.add_uint64(te::packet::timestamp, static_cast<std::uint64_t>(r.begin_ns));
    p.packet.add_uint32(te::packet::sequence_flags, te::packet::needs_state);
    pbf_writer e(p.packet, te::packet::event);
    e.add_int32(te::event::type, te::event::slice_begin);
    e.add_uint64(te::event::track, on.uuid);
    e.add_uint64(te::event::category_iids, static_cast<std::uint64_t>(r.kind) + 1);
    e.add_string(te::event::name, name_of_span(r, epoch));
    // The source's and the metrics' ends of a message are not recorded, and a flow needs both.
    if (is_message && r.minibatch >= 0 && r.stage >= 0 && r.peer >= 0)
      e.add_fixed64(r.kind == span_kind::send ? te::event::flow_ids : te::event::terminating_flow_ids,
                    flow_of(r, epoch));
    // Stage -1 is the source and "does not apply" at once, so the reader's default says the same.
    for_each_number(r, [&](te::field field, std::int64_t number, const number_range&) { annotate(e, field, number); });
    if (r.reason != wait_reason::none) {
      pbf_writer a(e, te::event::annotations);
      const auto reason = name_of(r.reason);
      a.add_uint64(te::annotation::name_iid, te::reason + 1U);
      a.add_string(te::annotation::string_value, reason.data(), reason.size());
    }
  }
  packet_writer p(out);
  p.packet.add_uint64(te::packet::timestamp, static_cast<std::uint64_t>(end_ns));
  pbf_writer e(p.packet, te::packet::event);
  e.add_int32(te::event::type, te::event::slice_end);
  e.add_uint64(te::event::track, on.uuid);
}

void trace_encoder::restate(std::string& out, std::int64_t now_ns) {
  instant(out, now_ns, te::header_event);
}

void trace_encoder::end(std::string& out, std::int64_t now_ns, std::int64_t minibatches, std::int64_t dropped,
                        bool complete) {
  header_.minibatches = minibatches;
  header_.dropped = dropped + left_out_;
  header_.complete = complete;
  instant(out, now_ns, te::end_event);
}

bool comes_before(const trace_record& a, const trace_record& b) {
  const auto key = [](const trace_record& r) { return std::tuple(r.end_ns, r.begin_ns, r.kind == span_kind::receive); };
  return key(a) < key(b);
}

} // namespace penstock::actors
