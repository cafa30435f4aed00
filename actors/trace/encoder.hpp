// Turns records into the bytes of a Perfetto trace: tracks, slices that nest, flows and counters.
#pragma once

#include "actors/trace/record.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace penstock::actors {

/// Appends whole packets to a string. A header of all ranks merged makes a process of each rank, any other one of all.
/// Slices of one track never overlap: a replica has the tracks "compute", "messages" and "waits", and a span that
/// begins before the track's last one ended goes to a further lane of it. Not thread-safe.
class trace_encoder {
public:
  /// Throws penstock::error for a header that check_header (record_contract.hpp) refuses.
  explicit trace_encoder(trace_header header);
  /// The processes, a track for each replica, the interned names and the header. `process_id`: where there is one
  /// process.
  void begin(std::string& out, std::int64_t now_ns, std::int32_t process_id);
  /// Give records in the order of comes_before, else lanes multiply. What no reader would take is left out and counted.
  void add(std::string& out, const trace_record& r);
  /// The header's from now on. Returns whether it is another one.
  bool set_clock_offset(std::int64_t ns) { return std::exchange(header_.clock_offset_ns, ns) != ns; }
  /// The header's from now on, with tracks for the plan's replicas; restate() then tells it. Throws as the constructor
  /// for one that does not follow the plans before it.
  void change_plan(std::string& out, trace_plan_epoch next);
  /// The header again.
  void restate(std::string& out, std::int64_t now_ns);
  std::int64_t left_out() const { return left_out_; }
  /// The header again, with what is known at the end. `dropped` is added to what was left out.
  void end(std::string& out, std::int64_t now_ns, std::int64_t minibatches, std::int64_t dropped, bool complete);

private:
  enum group : std::uint8_t { compute, messages, waits, groups };
  struct lane {
    std::uint64_t uuid = 0;
    std::int64_t last_end = 0;
  };
  struct actor_tracks {
    std::uint64_t uuid = 0;
    std::uint64_t depth_uuid = 0;
    int last_depth = -1;
    std::vector<lane> lanes[groups];
  };

  actor_tracks& tracks_of(std::string& out, int process, std::size_t epoch, int stage, int replica);
  void add_epoch(const trace_header& header);
  void describe_replicas(std::string& out, std::size_t epoch);
  int process_of(const trace_record& r, std::size_t epoch) const;
  void begin_process(std::string& out, int process, std::int32_t process_id);
  lane& lane_for(std::string& out, actor_tracks& tracks, group which, std::int64_t begin_ns);
  void describe(std::string& out, std::uint64_t uuid, std::uint64_t parent, const std::string& name, int rank,
                bool is_counter);
  void instant(std::string& out, std::int64_t now_ns, std::string_view name);
  std::uint64_t flow_of(const trace_record& r, std::size_t epoch) const;
  std::string name_of_span(const trace_record& r, std::size_t epoch) const;

  trace_header header_;
  struct epoch_view {
    trace_header header; // its own, without hosts
    int order = 0;       // of its first stage's tracks among their siblings
  };
  std::vector<epoch_view> epochs_;
  std::map<int, std::uint64_t> process_uuids_; // by rank; -1: the only process
  // By process, plan epoch, stage and replica; the source and the metrics go on from epoch to epoch.
  std::map<std::tuple<int, std::size_t, int, int>, actor_tracks> tracks_;
  std::uint64_t next_uuid_ = 0;
  std::int64_t left_out_ = 0;
};

/// The order in which records are written: of their ends, and of a send before the receive at the same moment, so that
/// the flow between them begins before it ends.
bool comes_before(const trace_record& a, const trace_record& b);

} // namespace penstock::actors
