// Arithmetic of minibatches and drain points.
#include "actors/policy/minibatch_plan.hpp"

#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::actors {

minibatch_plan::minibatch_plan(std::int64_t samples, std::int64_t batch)
    : samples_(samples), batch_(batch), per_epoch_(0) {
  check(samples > 0 && batch > 0, "a minibatch plan needs samples and a batch size");
  per_epoch_ = (samples + batch - 1) / batch;
}

minibatch_range minibatch_plan::at(std::int64_t minibatch) const {
  const auto first = minibatch % per_epoch_ * batch_;
  return {minibatch / per_epoch_, first, std::min(batch_, samples_ - first)};
}

std::int64_t drain_plan::next(std::int64_t done) const {
  auto point = total;
  if (eval_every > 0) {
    const auto period = eval_every * per_epoch;
    point = std::min(point, (done / period + 1) * period);
  }
  if (checkpoint_every > 0) point = std::min(point, (done / checkpoint_every + 1) * checkpoint_every);
  return point;
}

bool drain_plan::evaluates_at(std::int64_t done) const {
  return eval_every > 0 && done > 0 && done % (eval_every * per_epoch) == 0;
}

bool drain_plan::checkpoints_at(std::int64_t done) const {
  return checkpoint_every > 0 && done > 0 && done % checkpoint_every == 0;
}

} // namespace penstock::actors
