// What a device decides, read at once: for tests on devices whose memory the host reads.
#pragma once

#include "kernels/loss.hpp"
#include "kernels/ops/optimizer_ops.hpp"

namespace penstock {

inline loss_metrics metrics_of(const tensor& sums, const tensor& probabilities) {
  return read_metrics(sums, probabilities.dim(0), probabilities.dim(1));
}
inline loss_metrics metrics_of(const softmax_cross_entropy::forward_value& loss) {
  return metrics_of(loss.sums, loss.probabilities);
}

inline double sum_of_squares(backend& ops, const tensor& x) {
  const auto sums = ops.allocate(dtype::f64, {1}, memory_use::scratch);
  ops.get<optimizer_ops>().sum_of_squares(x, sums, 0);
  return *sums.data<double>();
}

/// A place for the finite flag of one parameter.
inline tensor one_flag(backend& ops) {
  return ops.allocate_zeroed(dtype::i32, {1}, memory_use::scratch);
}
inline bool is_set(const tensor& flag) {
  return *flag.data<std::int32_t>() != 0;
}

} // namespace penstock
