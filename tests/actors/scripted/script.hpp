// Choices of a scripted run: drawn from a seed, written down, replayed, and made fewer while a fault stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace penstock::testing {

/// Says which of several events is next. What lies beyond a written script is 0, the event that waits longest.
class script {
public:
  explicit script(std::uint64_t seed) : bits_(seed), is_drawn_(true) {}
  explicit script(std::vector<std::uint32_t> choices) : choices_(std::move(choices)) {}

  /// In [0, count).
  std::size_t choose(std::size_t count);
  const std::vector<std::uint32_t>& choices() const { return choices_; }

private:
  std::mt19937_64 bits_;
  bool is_drawn_ = false;
  std::vector<std::uint32_t> choices_;
  std::size_t next_ = 0;
};

/// A shorter script, with fewer choices that are not 0, for which `fails` still says true; it does for `failing`.
std::vector<std::uint32_t> shrink(std::vector<std::uint32_t> failing,
                                  const std::function<bool(const std::vector<std::uint32_t>&)>& fails);

} // namespace penstock::testing
