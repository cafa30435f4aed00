// Ranks that are threads of the test, floats whose sum shows its order, and a clock that ends every wait.
#pragma once

#include "transport/collectives.hpp"

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

namespace penstock::transport {

inline constexpr channel reductions{100};
inline constexpr std::chrono::seconds long_enough{60};

/// onto += from, float by float.
void add_floats(std::byte* onto, const std::byte* from, std::size_t bytes);

/// What each member contributes to a bucket: floats of very different sizes.
std::vector<float> contribution_of(std::size_t member, std::uint64_t key, std::size_t count);

/// The plain sum in member order over the members that contribute. Empty: none does.
std::vector<float> plain_sum(const std::vector<std::vector<float>>& by_member);

/// Floats in parts of uneven sizes, some of them empty, cut the same way for the same count and key.
std::vector<part> in_parts(memory_pool& pool, const std::vector<float>& values, std::uint64_t key);
std::vector<float> from_parts(const std::vector<part>& parts);

/// Outcomes of completions, in the order they came.
class outcomes {
public:
  all_reduce::completion next();
  /// Waits until so many have come; false when it takes too long.
  bool wait_for(std::size_t count);
  std::vector<std::string> texts() const; ///< "" for success

private:
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::string> texts_;
};

/// The bits of floats, since -0 equals 0 and NaN nothing.
std::vector<std::uint32_t> bits_of(const std::vector<float>& values);

} // namespace penstock::transport
