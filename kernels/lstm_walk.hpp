// In which order an LSTM walks through the rows of a batch: one rule for every backend.
#pragma once

#include "kernels/tensor.hpp"

#include <algorithm>

namespace penstock {

/// Step s of a walk is each row's place s; in reverse the row's last place within its length first. Beyond its length
/// (negative counts as 0, more than there are steps as all) a row rests: its state stays, its output is zero.
class lstm_walk {
public:
  /// x (B, T, inputs); lengths i64 (B), on the host, or none: all are T.
  lstm_walk(const tensor& x, const tensor& lengths, bool reverse)
      : rows_(x.dim(0)), steps_(x.dim(1)), lengths_(lengths ? lengths.data<std::int64_t>() : nullptr),
        reverse_(reverse) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t steps() const { return steps_; }
  std::int64_t length(std::int64_t row) const {
    return lengths_ == nullptr ? steps_ : std::clamp<std::int64_t>(lengths_[row], 0, steps_);
  }
  bool rests(std::int64_t row, std::int64_t step) const { return step >= length(row); }
  /// The row of x seen as (B * T, inputs) that this step reads, and of y that it writes. Every row of it has its step.
  std::int64_t place(std::int64_t row, std::int64_t step) const {
    const bool turned = reverse_ && !rests(row, step);
    return row * steps_ + (turned ? length(row) - 1 - step : step);
  }

private:
  std::int64_t rows_, steps_;
  const std::int64_t* lengths_;
  bool reverse_;
};

} // namespace penstock
