// Arithmetic of minibatches and drain points.
#include "actors/policy/epoch_minibatches.hpp"

#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::actors {

epoch_minibatches::epoch_minibatches(std::int64_t samples, std::int64_t batch, last_batch last)
    : samples_(samples), batch_(batch), per_epoch_(0), tail_(0) {
  check(samples > 0 && batch > 0, "a minibatch plan needs samples and a batch size");
  if (last == last_batch::keep) tail_ = samples % batch;
  per_epoch_ = samples / batch + (tail_ > 0 ? 1 : 0); // no sum, which a huge batch would overflow
  check(per_epoch_ > 0, "a minibatch plan that drops the last minibatch needs a whole one");
}

minibatch_range epoch_minibatches::at(std::int64_t minibatch) const {
  const auto first = minibatch % per_epoch_ * batch_;
  return {minibatch / per_epoch_, first, std::min(batch_, samples_ - first)};
}

namespace {

// First multiple of `period` after `done`, at most `total`.
std::int64_t next_multiple(std::int64_t done, std::int64_t period, std::int64_t total) {
  const auto left = period - done % period;
  return left < total - done ? done + left : total;
}

// Minibatches between evaluations: 0 where none comes before the end, however huge eval_every is.
std::int64_t evaluation_period(const drain_plan& plan) {
  return plan.eval_every > 0 && plan.eval_every <= plan.total / plan.per_epoch ? plan.eval_every * plan.per_epoch : 0;
}

} // namespace

std::int64_t drain_plan::next(std::int64_t done) const {
  auto point = total;
  if (const auto period = evaluation_period(*this); period > 0) point = next_multiple(done, period, point);
  if (checkpoint_every > 0) {
    // One that lies behind, but has been moved up, is still to come.
    const auto behind = moved_up(done - done % checkpoint_every);
    point = std::min(point, behind > done ? behind : moved_up(next_multiple(done, checkpoint_every, point)));
  }
  return point;
}

bool drain_plan::evaluates_at(std::int64_t done) const {
  const auto period = evaluation_period(*this);
  return period > 0 && done > 0 && done % period == 0;
}

bool drain_plan::checkpoints_at(std::int64_t done) const {
  return checkpoint_every > 0 && done > 0 && done % multiple == 0 && moved_up(done - done % checkpoint_every) == done &&
         done >= checkpoint_every;
}

} // namespace penstock::actors
