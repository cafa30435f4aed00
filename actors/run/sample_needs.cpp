// The full minibatches and an epoch's shorter last one are all the sizes that a run meets.
#include "actors/run/sample_needs.hpp"

#include "kernels/check.hpp"
#include "kernels/text_table.hpp"
#include "planner/schedule.hpp"

namespace penstock::actors {

void require_whole_minibatch(const run_options& options, std::int64_t samples) {
  if (options.last == last_batch::drop && samples < options.batch)
    throw usage_error("the last batch of an epoch is dropped, and there is no other: " + counted(samples, "sample") +
                      " for batch " + std::to_string(options.batch));
}

void require_enough_samples(const model& net, const epoch_minibatches& minibatches, std::int64_t batch,
                            std::int64_t steps, int microbatches, int frozen_until) {
  const auto need = net.least_training_samples(frozen_until);
  if (need.samples <= 1 || steps < 1) return;
  const auto refuse = [&](const std::string& what, std::int64_t samples, const std::string& wanted) {
    const auto least = planner::smallest_microbatch(samples, microbatches);
    if (least >= need.samples) return;
    throw usage_error(what + " in " + std::to_string(microbatches) +
                      (microbatches == 1 ? " micro-batch" : " micro-batches") + " has one of " +
                      counted(least, "sample") + "; " + need.layer + " of " + net.name() +
                      " cannot be trained on fewer than " + std::to_string(need.samples) +
                      " (one value a channel has no variance); wanted " + wanted);
  };
  const auto at_most = std::to_string(std::max<std::int64_t>(1, batch / need.samples));
  if (minibatches.at(0).samples == batch)
    refuse("batch " + std::to_string(batch), batch,
           batch < need.samples ? "a larger batch or image"
                                : "at most " + at_most + " micro-batches, or a larger image");
  if (minibatches.tail() > 0 && steps >= minibatches.per_epoch())
    refuse("an epoch's last batch of " + std::to_string(minibatches.tail()) + " (the others have " +
               std::to_string(batch) + ")",
           minibatches.tail(), "--last-batch drop, another --batch or fewer micro-batches");
}

} // namespace penstock::actors
