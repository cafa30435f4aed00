// Packets of a Perfetto trace, one at a time, into the records they stand for. The wire format itself stays in the
// .cpp.
#pragma once

#include "actors/trace/record.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace penstock::actors {

/// What is wrong with a packet; whoever reads the file adds its name and the place.
struct bad_packet {
  std::string what;
};

struct event_fields;

/// Knows the names that packets before this one defined and the slices they opened. Other tools' tracks and events are
/// passed over.
class packet_reader {
public:
  using interned_table = std::unordered_map<std::uint64_t, std::string>;
  /// Names of one packet sequence.
  struct sequence_state {
    interned_table categories;
    interned_table names;
    interned_table annotation_names;
  };

  /// Throws bad_packet, protozero::exception or penstock::error when the bytes are not what a recorder writes.
  void read(std::string_view packet);
  std::optional<trace_header> header;        ///< the last one so far
  std::vector<trace_record> records;         ///< in the order of the file
  std::size_t open() const { return open_; } ///< slices without an end so far

private:
  void handle(const event_fields& e, std::uint64_t timestamp);
  void handle_header(std::string_view text);

  std::unordered_map<std::uint64_t, sequence_state> sequences_;
  std::unordered_map<std::uint64_t, std::vector<std::optional<trace_record>>> stacks_; // by track
  std::size_t open_ = 0;
};

} // namespace penstock::actors
