// How long a stage replica's work took, for profiles and for comparing a run with its prediction.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace penstock::actors {

/// Durations of one kind of work; keeps the latest few thousand. Belongs to one thread at a time.
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

  /// Adds its own lifetime to a log.
  class watch {
  public:
    explicit watch(duration_log& log) : log_(log) {}
    ~watch() { log_.add(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count()); }
    watch(const watch&) = delete;
    watch& operator=(const watch&) = delete;

  private:
    duration_log& log_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };
};

} // namespace penstock::actors
