// Losses in, totals out.
#include "actors/run/metrics_core.hpp"

#include "kernels/check.hpp"

namespace penstock::actors {

metrics_effects metrics_core::on(const begin_training_msg& m) {
  stretch_ = m.run->number;
  evaluates_ = false;
  microbatches_ = m.run->schedule.microbatches;
  left_ = planned_ = m.run->schedule.minibatches * microbatches_ * tellers_;
  is_done_ = false;
  metrics_effects out;
  out.emplace_back(begin_steps{m.run});
  finish(out);
  return out;
}

metrics_effects metrics_core::on(const count_evaluation_msg& m) {
  stretch_ = m.stretch;
  evaluates_ = true;
  microbatches_ = 1;
  left_ = planned_ = m.batches * tellers_;
  is_done_ = is_cut_ = false;
  samples_ = 0;
  parts_.clear();
  metrics_effects out;
  out.emplace_back(evaluation_so_far{0});
  return out;
}

metrics_effects metrics_core::on(const end_after_msg& m) {
  metrics_effects out;
  if (m.stretch != stretch_ || is_done_) return out; // an evaluation may be complete, and reported
  const auto wanted = m.minibatches * microbatches_ * tellers_;
  is_cut_ = wanted < planned_;
  left_ += wanted - planned_;
  planned_ = wanted;
  finish(out);
  return out;
}

metrics_effects metrics_core::on(const loss_msg& m) {
  check(m.key.stretch == stretch_, "a loss of another stretch");
  metrics_effects out;
  --left_;
  if (evaluates_) {
    const auto [part, is_first] = parts_.try_emplace(m.key.since_drain, m.metrics);
    if (is_first)
      samples_ += m.metrics.samples;
    else
      part->second.add_part(m.metrics);
    if (!m.results.empty()) out.emplace_back(evaluation_results{m.key.since_drain, m.results});
    out.emplace_back(evaluation_so_far{samples_});
  } else {
    out.emplace_back(add_loss{m});
  }
  finish(out);
  return out;
}

void metrics_core::finish(metrics_effects& out) {
  if (left_ > 0 || is_done_) return;
  is_done_ = true;
  if (!evaluates_) {
    out.emplace_back(losses_are_in{});
    return;
  }
  loss_metrics total;
  for (const auto& [batch, part] : parts_)
    total += part;
  out.emplace_back(evaluation_is_in{total, !is_cut_});
}

} // namespace penstock::actors
