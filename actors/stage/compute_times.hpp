// How long a stage replica's work took, for profiles and for comparing a run with its prediction.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::actors {

/// Durations of one kind of work; keeps the latest few thousand. Belongs to its stream's completions.
class duration_log {
public:
  void add(double seconds);
  std::int64_t count() const { return count_; }
  double median_seconds() const; ///< 0 if there is none

private:
  std::vector<float> latest_;
  std::int64_t count_ = 0;
};

struct compute_times {
  duration_log forward;                         ///< of a micro-batch
  duration_log backward;                        ///< of a micro-batch, with its recomputation, where it is whole
  duration_log backward_input, backward_weight; ///< the parts of one that is split, recomputation in the first
  duration_log update;                          ///< first replica only
};

} // namespace penstock::actors
