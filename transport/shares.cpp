// Slices, shares and pieces of buckets.
#include "transport/shares.hpp"

#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::transport {

namespace {

constexpr std::size_t grain_elements = 64;                // so that a grain is whole cache lines, whatever the element
constexpr std::size_t share_bytes = std::size_t{1} << 20; // at most, in one slice

} // namespace

share_cutter::share_cutter(std::size_t ranks, std::size_t element_bytes)
    : ranks_(ranks), grain_(grain_elements * element_bytes),
      slice_bytes_(ranks * std::max(share_bytes / grain_, std::size_t{1}) * grain_) {
  check(ranks > 0 && element_bytes > 0, "[transport.all_reduce] shares of nothing");
}

std::uint64_t share_cutter::slices(std::size_t bucket_bytes) const {
  return bucket_bytes / slice_bytes_ + (bucket_bytes % slice_bytes_ != 0 ? 1 : 0);
}

byte_range share_cutter::share(std::size_t bucket_bytes, std::uint64_t slice, std::size_t owner) const {
  const std::size_t begin = slice * slice_bytes_;
  const std::size_t size = std::min(bucket_bytes - begin, slice_bytes_);
  const std::size_t grains = (size + grain_ - 1) / grain_;
  const auto edge = [&](std::size_t i) { return begin + std::min(grains * i / ranks_ * grain_, size); };
  return {edge(owner), edge(owner + 1)};
}

std::uint64_t share_cutter::slices_of(std::size_t bucket_bytes, std::size_t owner) const {
  const std::uint64_t all = slices(bucket_bytes);
  return all > 0 && share(bucket_bytes, all - 1, owner).empty() ? all - 1 : all;
}

byte_run::byte_run(std::vector<part> parts) : parts_(std::move(parts)) {
  std::erase_if(parts_, [](const part& p) { return p.size == 0; });
  std::size_t end = 0;
  for (const part& p : parts_)
    ends_.push_back(end += p.size);
}

bool byte_run::holds_whole(std::size_t element_bytes) const {
  return std::all_of(parts_.begin(), parts_.end(), [&](const part& p) { return p.size % element_bytes == 0; });
}

std::vector<part> byte_run::cut(byte_range range) const {
  std::vector<part> pieces;
  for (part p = piece(range, 0); p.size > 0; p = piece(range, pieces.size()))
    pieces.push_back(std::move(p));
  return pieces;
}

part byte_run::piece(byte_range range, std::size_t index) const {
  const auto first =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), range.begin) - ends_.begin());
  if (range.empty() || index >= parts_.size() - first) return {};
  const std::size_t i = first + index;
  const std::size_t start = ends_[i] - parts_[i].size;
  const std::size_t from = std::max(range.begin, start);
  const std::size_t to = std::min(range.end, ends_[i]);
  if (from >= to) return {};
  return {parts_[i].storage, parts_[i].offset + from - start, to - from};
}

} // namespace penstock::transport
