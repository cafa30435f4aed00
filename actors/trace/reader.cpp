// The file around the packets: its head, its lengths, where it breaks off.
#include "actors/trace/reader.hpp"

#include "actors/trace/packet_reader.hpp"
#include "actors/trace/track_event.hpp"
#include "kernels/check.hpp"

#include <protozero/exception.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <system_error>
#include <utility>

namespace penstock::actors {

namespace {

constexpr std::uint64_t most_packet_bytes = 1ULL << 24U; // ours have some hundred
constexpr std::uint64_t packet_tag = track_event::trace::packet << 3U | 2U;

/// The packets of an open file.
class packet_file {
public:
  packet_file(std::istream& in, std::uint64_t bytes) : in_(in), left_(bytes) {}

  /// Hands every packet to `reader`. Returns whether the file ends with a whole one.
  bool read_all(packet_reader& reader) {
    std::string bytes;
    while (true) {
      place_ = read_;
      if (left_ == 0) return true;
      std::uint64_t tag = 0;
      std::uint64_t length = 0;
      if (!read_varint(tag)) return false;
      if (tag != packet_tag) throw bad_packet{"not a packet of a Perfetto trace"};
      if (!read_varint(length)) return false;
      if (length > most_packet_bytes)
        throw bad_packet{"a packet of " + std::to_string(length) + " bytes, at most 16777216 are read"};
      if (length > left_) return false;
      bytes.resize(length);
      if (!in_.read(bytes.data(), static_cast<std::streamsize>(length))) return false;
      read_ += length;
      left_ -= length;
      reader.read(bytes);
    }
  }

  /// Where the packet at hand begins.
  std::uint64_t place() const { return place_; }

private:
  /// Returns false where the file ends first.
  bool read_varint(std::uint64_t& value) {
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const int c = left_ == 0 ? std::char_traits<char>::eof() : in_.get();
      if (c == std::char_traits<char>::eof()) return false;
      ++read_;
      --left_;
      value |= (static_cast<std::uint64_t>(c) & 0x7FU) << shift;
      if ((c & 0x80) == 0) return true;
    }
    throw bad_packet{"not a packet of a Perfetto trace"};
  }

  std::istream& in_;
  std::uint64_t left_;
  std::uint64_t read_ = 0;
  std::uint64_t place_ = 0;
};

std::string what_is_missing(const trace_header& header, const packet_reader& reader, bool whole, std::uint64_t place) {
  if (!whole) return "the file breaks off at byte " + std::to_string(place);
  if (!header.missing.empty()) return header.missing;
  if (!header.complete) return "the run did not close it";
  if (reader.open() > 0) return std::to_string(reader.open()) + " spans have no end";
  if (header.dropped > 0) return std::to_string(header.dropped) + " records were dropped while recording";
  return {};
}

} // namespace

trace_file read_trace(const std::filesystem::path& file) {
  const std::string name = "trace '" + file.string() + "'";
  std::error_code failure;
  const auto bytes = std::filesystem::file_size(file, failure);
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!failure && !in) failure = std::error_code(errno, std::generic_category());
  if (failure) throw error("cannot read " + name + ": " + failure.message());
  return read_trace(in, bytes, name);
}

trace_file read_trace(std::istream& in, std::uint64_t bytes, const std::string& name) {
  packet_reader reader;
  packet_file packets(in, bytes);
  bool whole = false;
  const auto refuse = [&](const std::string& what) {
    throw error(name + ", byte " + std::to_string(packets.place()) + ": " + what);
  };
  try {
    whole = packets.read_all(reader);
  } catch (const bad_packet& bad) {
    refuse(bad.what);
  } catch (const protozero::exception& bad) {
    refuse(std::string("a broken packet (") + bad.what() + ")");
  } catch (const error& bad) {
    refuse(bad.what());
  }
  if (!reader.header) throw error(name + ": no header, so not a Penstock trace");

  trace_file result{*reader.header, std::move(reader.records), {}};
  std::stable_sort(result.records.begin(), result.records.end(), [](const trace_record& a, const trace_record& b) {
    return std::pair(a.begin_ns, a.end_ns) < std::pair(b.begin_ns, b.end_ns);
  });
  result.missing = what_is_missing(result.header, reader, whole, packets.place());
  return result;
}

} // namespace penstock::actors
