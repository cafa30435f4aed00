// Token ids of many samples in one piece of memory.
#pragma once

#include "kernels/tensor.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::apps {

class token_rows {
public:
  void add(std::span<const std::int64_t> ids) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ends_.push_back(ids_.size());
  }
  std::size_t rows() const { return ends_.size(); }
  std::span<const std::int32_t> row(std::size_t i) const {
    const auto first = i == 0 ? 0 : ends_[i - 1];
    return std::span(ids_).subspan(first, ends_[i] - first);
  }
  std::vector<std::int32_t> lengths() const;

private:
  std::vector<std::int32_t> ids_; // a vocabulary has fewer than 2^31 tokens
  std::vector<std::size_t> ends_;
};

/// Row `row` of a plain i64 tensor [rows, time]: the ids, then `pad`. There must be room for them.
void put_padded(tensor& into, std::int64_t row, std::span<const std::int32_t> ids, std::int64_t pad);

} // namespace penstock::apps
