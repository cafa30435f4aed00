// Turns records into the bytes of a Perfetto trace: tracks, slices that nest, flows and counters.
#pragma once

#include "actors/trace/record.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::actors {

/// Appends whole packets to a string. Slices of one track never overlap: a replica has the tracks "compute",
/// "messages" and "waits", and a span that begins before the track's last one ended goes to a further lane of it.
/// Not thread-safe.
class trace_encoder {
public:
  explicit trace_encoder(trace_header header);
  /// The process, a track for each replica, the interned names and the header.
  void begin(std::string& out, std::int64_t now_ns, std::int32_t process_id);
  /// Give records in the order of end_ns, else lanes multiply.
  void add(std::string& out, const trace_record& r);
  /// The header again, with what is known at the end.
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

  actor_tracks& tracks_of(std::string& out, int stage, int replica);
  lane& lane_for(std::string& out, actor_tracks& tracks, group which, std::int64_t begin_ns);
  void describe(std::string& out, std::uint64_t uuid, std::uint64_t parent, const std::string& name, int rank,
                bool is_counter);
  void instant(std::string& out, std::int64_t now_ns, std::string_view name);
  std::uint64_t flow_of(const trace_record& r) const;
  std::string name_of_span(const trace_record& r) const;

  trace_header header_;
  std::map<std::pair<int, int>, actor_tracks> tracks_;
  std::uint64_t process_uuid_ = 0;
  std::uint64_t next_uuid_ = 0;
};

} // namespace penstock::actors
