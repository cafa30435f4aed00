// What many numbers come to.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::actors {

/// The middle one, or the middle between the two; 0 of none.
double median(std::vector<std::int64_t> values);
double median(std::vector<double> values);

/// Count, mean and variance of samples as they come.
class sample_moments {
public:
  void add(double value) {
    ++count_;
    const double off = value - mean_;
    mean_ += off / static_cast<double>(count_);
    squares_ += off * (value - mean_);
  }
  std::int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double variance() const { return count_ > 1 ? squares_ / static_cast<double>(count_ - 1) : 0; }

private:
  std::int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0; // of distances from the mean
};

} // namespace penstock::actors
