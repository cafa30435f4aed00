// Learning rate and scale of an update.
#include "actors/optimizer/update_order.hpp"

#include <algorithm>
#include <cmath>

namespace penstock::actors {

update_order order_update(const run_options& options, const stretch& run, int stage, std::int64_t group,
                          std::int64_t minibatches) {
  const auto& s = run.schedule;
  update_order order;
  order.first_minibatch = run.first_minibatch + group * planner::minibatches_per_update(s, stage);
  order.learning_rate = learning_rate(options.lr, order.first_minibatch);
  order.learning_rate *= static_cast<float>(run.rate_of(order.first_minibatch));
  if (s.updates.per_minibatch_group) {
    if (minibatches < 1) return order; // nothing of them counts: there is no gradient
    order.gradient_scale = 1.0F / static_cast<float>(minibatches);
    const int first_replicas = options.rate_replicas > 0 ? options.rate_replicas : s.first_active().replicas;
    if (s.updates.scale_learning_rate && options.replica_lr_scaling)
      order.learning_rate *= static_cast<float>(minibatches) / static_cast<float>(first_replicas);
  }
  order.keep_gradients = !options.save_gradients.empty() && order.first_minibatch == 0;
  const auto average_from = options.asgd_patience > 0 ? run.average_from : options.optimizer.average_from;
  order.averages = average_from >= 0 && order.first_minibatch >= average_from;
  return order;
}

float stage_clip_factor(const run_options& options, const update_order& order, const std::vector<double>& squares) {
  double sum = 0;
  for (const double s : squares)
    sum += s;
  return clip_factor(std::sqrt(sum) * static_cast<double>(order.gradient_scale), options.clip_stage_norm);
}

float clip_factor(double norm, double clip) {
  return static_cast<float>(std::min(1.0, clip / (norm + 1e-6)));
}

} // namespace penstock::actors
