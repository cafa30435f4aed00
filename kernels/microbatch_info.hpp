// What is known of a micro-batch before anything of it is computed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock {

inline constexpr std::size_t most_counts = 4;  ///< that a model's losses are divided by; the first is "samples"
inline constexpr std::size_t most_extents = 4; ///< of a model that vary from minibatch to minibatch, beside the batch

/// Made once, by the source, for each micro-batch; travels with every message about it. Trivially copyable.
struct microbatch_info {
  std::int64_t samples = 0; ///< of the micro-batch; 0: an empty one, which computes nothing
  /// Of the whole minibatch, by model::counts(): samples, tokens that count, ... A loss's gradient is divided by one.
  std::array<double, most_counts> counts{};
  std::array<std::int64_t, most_extents> extents{}; ///< by model::extents(); 0 where the model has none
  /// Where minibatches continue each other: batch column of the first sample, and how many minibatches of these columns
  /// the epoch had before: nothing is carried into block 0.
  std::int64_t column = 0;
  std::int64_t time_block = 0;

  friend bool operator==(const microbatch_info&, const microbatch_info&) = default;
};

} // namespace penstock
