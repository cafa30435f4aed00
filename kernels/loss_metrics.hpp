// What a run adds up to say how well it does.
#pragma once

#include "kernels/microbatch_info.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock {

inline constexpr std::size_t most_sums = 16; ///< of all losses of a model together

/// Sums over samples, by model::sums(): each loss's, one behind the other. What they mean is the model's to say
/// (kernels/model_metrics.hpp). Trivially copyable.
struct loss_metrics {
  std::int64_t samples = 0;
  std::array<double, most_sums> sums{};
  std::array<double, most_counts> counts{}; ///< by model::counts()

  /// The sums of other losses of the same samples.
  void add_part(const loss_metrics& other) {
    for (std::size_t i = 0; i < most_sums; ++i)
      sums[i] += other.sums[i];
  }
  loss_metrics& operator+=(const loss_metrics& other) {
    samples += other.samples;
    for (std::size_t i = 0; i < most_sums; ++i)
      sums[i] += other.sums[i];
    for (std::size_t i = 0; i < most_counts; ++i)
      counts[i] += other.counts[i];
    return *this;
  }
};

} // namespace penstock
