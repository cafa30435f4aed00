// The sum of the members' contributions to a share, always in member order.
#pragma once

#include "transport/collectives.hpp"

namespace penstock::transport {

/// Adds up ranges that are cut into pieces of equal sizes. Not thread safe.
class member_sum {
public:
  /// `scratch` gives it a few KB for itself.
  member_sum(add_elements add, std::size_t element_bytes, memory_pool& scratch);

  /// Writes contributions[0] + contributions[1] + … to `result`, which may be any one of them. There is at least one.
  /// Throws penstock::error when a contribution's pieces have other sizes than the result's.
  void operator()(const std::vector<part>& result, const std::vector<std::vector<part>>& contributions);

private:
  void add_piece(const part& result, const std::vector<std::vector<part>>& contributions, std::size_t piece);

  add_elements add_;
  std::size_t chunk_bytes_;
  buffer chunk_;
};

} // namespace penstock::transport
