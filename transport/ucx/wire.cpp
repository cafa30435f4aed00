// Judges headers of strangers.
#include "transport/ucx/wire.hpp"

#include "transport/peer_book.hpp"

#include <cstring>

namespace penstock::transport {

namespace {

bool same_token(const job_token& a, const job_token& b) {
  std::byte difference{};
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= a[i] ^ b[i];
  return difference == std::byte{};
}

bool is_possible(const wire_header& h) {
  if (h.kind != wire_kind::part && (h.part_bytes != 0 || h.offset != 0)) return false;
  switch (h.kind) {
  case wire_kind::hello:
  case wire_kind::welcome:
    return h.user_header_bytes == 0 && h.payload_bytes == 0;
  case wire_kind::announce:
    return h.user_header_bytes == 0 && h.payload_bytes <= max_header_bytes && h.parts <= max_parts;
  case wire_kind::part:
    return h.user_header_bytes <= max_header_bytes && h.parts <= max_parts && h.is_announced <= 1 &&
           (h.parts == 0 ? h.part == 0 && h.part_bytes == 0 : h.part < h.parts) && h.payload_bytes <= h.part_bytes &&
           h.offset <= h.part_bytes - h.payload_bytes && (h.is_announced == 1 ? h.part == 0 : h.user_header_bytes == 0);
  }
  return false;
}

} // namespace

std::optional<wire_header> believed(std::string_view bytes, std::size_t payload_bytes, const wire_rules& rules) {
  wire_header h;
  if (bytes.size() < sizeof h) return std::nullopt;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (!same_token(h.token, rules.token)) return std::nullopt;
  const bool is_peer =
      h.sender < static_cast<std::uint32_t>(rules.size) && h.sender != static_cast<std::uint32_t>(rules.rank);
  const bool fits = bytes.size() - sizeof h == h.user_header_bytes && payload_bytes == h.payload_bytes;
  if (!is_peer || !fits || !is_possible(h)) return std::nullopt;
  return h;
}

} // namespace penstock::transport
