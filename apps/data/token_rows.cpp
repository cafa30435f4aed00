// Copies rows of tokens into padded tensors.
#include "apps/data/token_rows.hpp"

#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::apps {

std::vector<std::int32_t> token_rows::lengths() const {
  std::vector<std::int32_t> lengths;
  lengths.reserve(rows());
  for (std::size_t i = 0; i < rows(); ++i)
    lengths.push_back(static_cast<std::int32_t>(row(i).size()));
  return lengths;
}

void put_padded(tensor& into, std::int64_t row, std::span<const std::int32_t> ids, std::int64_t pad) {
  const auto time = into.dim(1);
  check(static_cast<std::int64_t>(ids.size()) <= time, "a row of tokens fits the tensor it goes to");
  auto* const begin = into.data<std::int64_t>() + row * time;
  std::fill(std::copy(ids.begin(), ids.end(), begin), begin + time, pad);
}

} // namespace penstock::apps
