// The header of each active message between ranks, and what makes one believable.
#pragma once

#include "transport/ucx/ucx.hpp"

#include <optional>
#include <string_view>

namespace penstock::transport {

enum class wire_kind : std::uint32_t {
  hello,    ///< asks for a welcome
  welcome,  ///< the way there and back works
  announce, ///< carries the user's header as its payload, where it is too long to travel with the first part
  part      ///< one part of a message, a piece of one, or a message without parts
};

/// As it lies on the wire: UCX connects machines of one byte order only.
struct wire_header {
  job_token token{};
  wire_kind kind{};
  std::uint32_t sender = 0;
  std::uint64_t to = 0;      ///< channel
  std::uint64_t message = 0; ///< counted by the sender
  std::uint32_t part = 0;
  std::uint32_t parts = 0;
  std::uint64_t part_bytes = 0;
  std::uint64_t offset = 0;            ///< in the part, of the payload
  std::uint64_t payload_bytes = 0;     ///< as many as the part has, or fewer: others of its pieces follow
  std::uint32_t user_header_bytes = 0; ///< that follow this header
  std::uint32_t is_announced = 0;      ///< 1: the user's header comes with this message, 0: by itself
};
static_assert(sizeof(wire_header) == 80, "no padding, or bytes of the stack would travel");

/// Who may speak to this rank.
struct wire_rules {
  job_token token{};
  int rank = 0;
  int size = 1;
};

/// The header, when everything in it is as a rank of this job sends it; `bytes` is what UCX says came as header, and
/// `payload_bytes` what came after. Tokens are compared in constant time.
std::optional<wire_header> believed(std::string_view bytes, std::size_t payload_bytes, const wire_rules& rules);

} // namespace penstock::transport
