// What the ranks of an all-reduce say about the bytes they send each other.
#pragma once

#include "kernels/check.hpp"
#include "transport/endpoint.hpp"

namespace penstock::transport {

/// Stands before the pieces of a share, contributed or summed.
struct share_header {
  std::uint64_t key = 0;
  std::uint64_t bucket_bytes = 0;
  std::uint64_t slice = 0;
  std::uint64_t from = 0;   ///< the member that contributes, or the owner of the sum
  std::uint64_t filled = 0; ///< 0: nothing was contributed, and there are no pieces
};

message packed(const share_header& h, std::vector<part> pieces);

/// Throws penstock::error for what is no such header.
share_header unpacked(int peer, std::string_view header);

/// The error for a message that fits nothing here; `what` is followed by the number of the member or owner.
error stray(int peer, const char* what, const share_header& h);

} // namespace penstock::transport
