// What a device decides, read at once: for tests on devices whose memory the host reads.
#pragma once

#include "kernels/check.hpp"
#include "kernels/losses/cross_entropy.hpp"
#include "kernels/ops/loss_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"

#include <array>

namespace penstock {

struct classifier_sums {
  double loss_sum = 0;
  std::int64_t correct_top1 = 0;
  std::int64_t correct_top5 = 0;
};

/// Throws penstock::error for a label out of range.
inline classifier_sums metrics_of(const tensor& sums, const tensor& logits) {
  losses::cross_entropy()->judge(sums, std::array{logits.dims()});
  const double* s = sums.data<double>();
  return {s[loss_sums::loss], static_cast<std::int64_t>(s[loss_sums::top1]),
          static_cast<std::int64_t>(s[loss_sums::top5])};
}

/// The classifier's loss by hand, without a model.
class classifier_head {
public:
  explicit classifier_head(float label_smoothing = 0) : op_(losses::cross_entropy(label_smoothing)) {}
  struct forward_value {
    tensor sums;
    tensor logits;
    std::vector<tensor> saved;
  };
  forward_value forward(backend& ops, const tensor& logits, const tensor& labels) const {
    auto found = op_->forward(ops, std::array{logits, labels}, phase::training);
    return {found.sums, logits, found.saved};
  }
  tensor backward(backend& ops, const forward_value& value, float scale) const {
    auto saved = value.saved;
    return op_->backward(ops, saved, scale).front();
  }

private:
  loss_ptr op_;
};

inline classifier_sums metrics_of(const classifier_head::forward_value& loss) {
  return metrics_of(loss.sums, loss.logits);
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
