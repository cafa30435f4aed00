// What a model's sums say: its loss, and the ratios that people read.
#pragma once

#include "kernels/loss_metrics.hpp"
#include "kernels/model.hpp"

namespace penstock {

struct shown_value {
  std::string name; ///< "accuracy"; behind its loss's name where several show the same
  double value = 0;
  bool is_share = true; ///< of what was counted: from 0 to 1
};

/// The weighted mean losses of all that was summed; one without anything that counts adds nothing. Evaluating, without
/// those that are for training only.
double mean_loss(const model& net, const loss_metrics& metrics, phase mode);

/// Of those of the model's losses: the sums as they are, for whoever asks whether they are finite.
double loss_sum(const model& net, const std::vector<int>& losses, const loss_metrics& metrics);

/// Evaluating or of a step. Without the losses that are for training only, but for the first one.
std::vector<shown_value> shown_values(const model& net, const loss_metrics& metrics, phase mode);

/// What of losses that have a unit was counted: "tokens".
std::vector<shown_value> counted_units(const model& net, const loss_metrics& metrics);

} // namespace penstock
