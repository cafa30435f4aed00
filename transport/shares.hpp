// How a bucket is cut for the all-reduce: into slices that follow each other, each slice into one share a rank.
#pragma once

#include "transport/endpoint.hpp"

namespace penstock::transport {

/// Bytes [begin, end) of a bucket.
struct byte_range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
};

/// Where shares begin and end: a function of sizes alone, so that all ranks agree without talking. Slices let one
/// bucket travel, be added and travel back at the same time, and keep what is added in cache; they do not change a sum.
class share_cutter {
public:
  share_cutter(std::size_t ranks, std::size_t element_bytes);

  std::uint64_t slices(std::size_t bucket_bytes) const;
  /// What `owner` (an index among the ranks) adds in that slice; may be empty.
  byte_range share(std::size_t bucket_bytes, std::uint64_t slice, std::size_t owner) const;
  /// Slices in which `owner` has something to add: always the first so many.
  std::uint64_t slices_of(std::size_t bucket_bytes, std::size_t owner) const;

private:
  std::size_t ranks_;
  std::size_t grain_; ///< shares begin at multiples of it: whole elements and whole cache lines
  std::size_t slice_bytes_;
};

/// Parts one after another, addressed as one run of bytes. Parts without bytes are left out.
class byte_run {
public:
  byte_run() = default;
  explicit byte_run(std::vector<part> parts);

  std::size_t size() const { return parts_.empty() ? 0 : ends_.back(); }
  bool empty() const { return parts_.empty(); }
  /// Whether all parts hold whole elements.
  bool holds_whole(std::size_t element_bytes) const;
  /// Whether any range is cut into pieces of the same sizes in both.
  bool cut_alike(const byte_run& other) const { return ends_ == other.ends_; }
  /// The pieces of the parts within a range, in order.
  std::vector<part> cut(byte_range range) const;
  /// cut(range)[index]; a part without storage where there is none.
  part piece(byte_range range, std::size_t index) const;

private:
  std::vector<part> parts_;
  std::vector<std::size_t> ends_; ///< by part
};

} // namespace penstock::transport
