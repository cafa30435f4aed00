// Least common multiples of few numbers, and of all that add up to so many devices.
#include "planner/search/column_blocks.hpp"

#include <algorithm>
#include <numeric>

namespace penstock::planner {

namespace {

// The least sum of replica counts with this least common multiple: a stage for each power of a prime.
std::int64_t least_devices(std::int64_t blocks) {
  std::int64_t sum = 0;
  for (std::int64_t prime = 2; prime <= blocks; ++prime) {
    std::int64_t power = 1;
    for (; blocks % prime == 0; blocks /= prime)
      power *= prime;
    if (power > 1) sum += power;
  }
  return std::max<std::int64_t>(1, sum);
}

} // namespace

std::int64_t column_blocks_of(const std::vector<int>& replicas) {
  constexpr std::int64_t most = 1'000'000'000'000;
  std::int64_t blocks = 1;
  for (const auto r : replicas) {
    blocks = std::lcm(blocks, std::int64_t{r});
    if (blocks > most) return most;
  }
  return blocks;
}

std::vector<std::int64_t> possible_column_blocks(int devices) {
  constexpr int few_devices = 16;
  constexpr std::int64_t most_of_few = 140; // 4, 5 and 7 replicas
  std::vector<std::int64_t> all;
  if (devices > few_devices) {
    all.push_back(0);
    for (std::int64_t blocks = 1; blocks <= devices; blocks *= 2)
      all.push_back(blocks);
    return all;
  }
  for (std::int64_t blocks = 1; blocks <= most_of_few; ++blocks)
    if (least_devices(blocks) <= devices) all.push_back(blocks);
  return all;
}

} // namespace penstock::planner
