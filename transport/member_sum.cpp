// Sums in member order, a chunk that stays in cache at a time.
#include "transport/member_sum.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::transport {

namespace {

constexpr std::size_t chunk_goal = 16 * 1024; // the chunk and what is added to it fit the first-level cache

} // namespace

member_sum::member_sum(add_elements add, std::size_t element_bytes, memory_pool& scratch)
    : add_(std::move(add)), chunk_bytes_(std::max(chunk_goal / element_bytes, std::size_t{1}) * element_bytes),
      chunk_(scratch.allocate(chunk_bytes_, memory_use::scratch)) {}

void member_sum::operator()(const std::vector<part>& result, const std::vector<std::vector<part>>& contributions) {
  const auto same_size = [](const part& a, const part& b) { return a.size == b.size; };
  for (const auto& c : contributions)
    if (!std::equal(result.begin(), result.end(), c.begin(), c.end(), same_size))
      throw error("[transport.all_reduce] a contribution comes in " + std::to_string(c.size()) +
                  " pieces that do not have the sizes of this rank's " + std::to_string(result.size()));
  for (std::size_t i = 0; i < result.size(); ++i)
    add_piece(result[i], contributions, i);
}

void member_sum::add_piece(const part& result, const std::vector<std::vector<part>>& contributions, std::size_t piece) {
  const auto later = contributions.begin() + 1;
  // The result may be written chunk by chunk only where nobody still wants to read it.
  const bool is_read_later =
      std::any_of(later, contributions.end(), [&](const auto& c) { return c[piece].data() == result.data(); });
  for (std::size_t done = 0; done < result.size; done += chunk_bytes_) {
    const std::size_t bytes = std::min(chunk_bytes_, result.size - done);
    std::byte* const target = result.data() + done;
    std::byte* const sum = is_read_later ? chunk_.data() : target;
    const std::byte* const first = contributions.front()[piece].data() + done;
    if (first != sum) std::memcpy(sum, first, bytes);
    for (auto c = later; c != contributions.end(); ++c)
      add_(sum, (*c)[piece].data() + done, bytes);
    if (sum != target) std::memcpy(target, sum, bytes);
  }
}

} // namespace penstock::transport
