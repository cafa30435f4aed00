// How one update is made: whose learning rate, over how many minibatches.
#pragma once

#include "actors/run/stretch.hpp"
#include "actors/run_options.hpp"

#include <vector>

namespace penstock::actors {

/// DESIGN section 3, Replicas.
struct update_order {
  std::int64_t first_minibatch = 0; ///< its learning rate counts
  float learning_rate = 0;
  float gradient_scale = 1;
  bool keep_gradients = false; ///< the run's first update, for --save-gradients
  bool averages = false;       ///< the new weights are counted into the optimizer's average
};

/// Of update `group` of the stretch, with so many minibatches in it of which something counts.
update_order order_update(const run_options& options, const stretch& run, int stage, std::int64_t group,
                          std::int64_t minibatches);

/// Factor of one stage's gradient under --clip-stage-norm; `squares`: of its sum, by parameter.
float stage_clip_factor(const run_options& options, const update_order& order, const std::vector<double>& squares);

/// Factor that clips a gradient of that norm: min(1, clip / (norm + 1e-6)), as PyTorch.
float clip_factor(double norm, double clip);

} // namespace penstock::actors
