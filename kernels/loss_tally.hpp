// What a loss counts on its way through the samples, for devices whose memory the host reads.
#pragma once

#include "kernels/ops/loss_ops.hpp"

namespace penstock {

struct loss_tally {
  double loss = 0;
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;
  std::int64_t bad_sample = -1;
  std::int64_t bad_label = 0;

  /// False for a label outside [0, classes); the first one is remembered.
  bool accepts(std::int64_t label, std::int64_t sample, std::int64_t classes) {
    if (label >= 0 && label < classes) return true;
    if (bad_sample < 0) bad_sample = sample, bad_label = label;
    return false;
  }
  /// `rank`: classes that are guessed before the right one.
  void count(std::int64_t rank) {
    top1 += rank < 1 ? 1 : 0;
    top5 += rank < 5 ? 1 : 0;
  }
  void write(const tensor& sums) const {
    double* out = sums.data<double>();
    out[loss_sums::loss] = loss;
    out[loss_sums::top1] = static_cast<double>(top1);
    out[loss_sums::top5] = static_cast<double>(top5);
    out[loss_sums::bad_sample] = static_cast<double>(bad_sample);
    out[loss_sums::bad_label] = static_cast<double>(bad_label);
  }
};

/// The same for a loss that leaves labels out.
struct masked_tally {
  double loss = 0;
  std::int64_t counted = 0;
  std::int64_t correct = 0;
  std::int64_t bad_place = -1;
  std::int64_t bad_label = 0;

  /// False for a label that is left out, and for one that is no class, of which the first is remembered.
  bool accepts(const masked_loss_args& args, std::int64_t label, std::int64_t place, std::int64_t classes) {
    if (label == args.ignored || (args.ignores_beyond && label >= classes)) return false;
    if (label >= 0 && label < classes) return true;
    if (bad_place < 0) bad_place = place, bad_label = label;
    return false;
  }
  void write(const tensor& sums) const {
    double* out = sums.data<double>();
    out[masked_loss_sums::loss] = loss;
    out[masked_loss_sums::counted] = static_cast<double>(counted);
    out[masked_loss_sums::correct] = static_cast<double>(correct);
    out[masked_loss_sums::bad_place] = static_cast<double>(bad_place);
    out[masked_loss_sums::bad_label] = static_cast<double>(bad_label);
  }
};

} // namespace penstock
