// Reads a trace file back into its header and records.
#pragma once

#include "actors/trace/record.hpp"

#include <cstdint>
#include <filesystem>
#include <istream>
#include <string>
#include <vector>

namespace penstock::actors {

struct trace_file {
  trace_header header;               ///< the last one in the file
  std::vector<trace_record> records; ///< in order of begin, then of end
  /// Why the trace does not tell the whole run, in words that follow "the trace is incomplete: "; empty when it does.
  std::string missing;
  bool complete() const { return missing.empty(); }
};

/// Reads what trace_recorder wrote, as it is or rewritten by another tool. A file that breaks off is read as far as it
/// goes and called incomplete. Throws penstock::error, one line that names the file, when it cannot be read, is no such
/// trace, or holds what no recorder writes (the place in bytes is named). Memory stays within a small multiple of the
/// file's size whatever its bytes say.
trace_file read_trace(const std::filesystem::path& file);
/// The same from a stream of `bytes` bytes; `name` stands in messages.
trace_file read_trace(std::istream& in, std::uint64_t bytes, const std::string& name);

} // namespace penstock::actors
