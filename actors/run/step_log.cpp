// Step events and rates.
#include "actors/run/step_log.hpp"

#include "kernels/check.hpp"
#include "kernels/model_metrics.hpp"

namespace penstock::actors {

namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

} // namespace

void step_log::begin_stretch(std::int64_t first_minibatch, std::int64_t in_flight) {
  next_ = first_minibatch;
  steady_from_ = first_minibatch + in_flight;
  steady_stretch_samples_ = 0;
  steady_stretch_steps_ = 0;
  begun_ = clock::now();
  recent_.clear();
  pending_.clear();
}

void step_log::add(std::int64_t minibatch, std::int32_t microbatch, const loss_metrics& metrics) {
  check(minibatch >= next_, "a loss of a minibatch that is already reported");
  auto& open = pending_[minibatch];
  ++open.came;
  if (const auto [part, is_first] = open.parts.try_emplace(microbatch, metrics); !is_first)
    part->second.add_part(metrics);
  while (!pending_.empty() && pending_.begin()->first == next_ &&
         pending_.begin()->second.came == microbatches_ * tellers_) {
    loss_metrics sum;
    for (const auto& [m, part] : pending_.begin()->second.parts)
      sum += part;
    sum.counts = pending_.begin()->second.parts.begin()->second.counts; // each has its minibatch's
    pending_.erase(pending_.begin());
    finish(next_++, sum);
  }
}

// Over the last two seconds or so.
double step_log::recent_rate(clock::time_point now, std::int64_t samples) {
  recent_.emplace_back(now, samples);
  std::size_t drop = 0;
  while (recent_.size() - drop > 2 && seconds_between(recent_[drop].first, now) > 2.0)
    ++drop;
  if (drop > 0) recent_.erase(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(drop));
  std::int64_t sum = 0;
  for (std::size_t i = 1; i < recent_.size(); ++i)
    sum += recent_[i].second;
  const auto span = seconds_between(recent_.front().first, now);
  return span > 0 ? static_cast<double>(sum) / span
                  : static_cast<double>(samples) / std::max(1e-9, seconds_between(begun_, now));
}

void step_log::finish(std::int64_t minibatch, const loss_metrics& sum) {
  const auto now = clock::now();
  last_step_ = now;
  ++steps_;
  samples_ += sum.samples;
  if (minibatch == steady_from_) steady_begun_ = now;
  if (minibatch > steady_from_) {
    steady_stretch_samples_ += sum.samples;
    ++steady_stretch_steps_;
  }
  step_event event;
  event.step = minibatch + 1;
  event.epoch = minibatch / per_epoch_;
  event.total_steps = total_steps_;
  event.loss = mean_loss(*net_, sum, phase::training);
  event.shown = shown_values(*net_, sum, phase::training);
  event.learning_rate = learning_rate(lr_, minibatch) * static_cast<float>(rates_ ? rates_(minibatch) : 1);
  event.samples_per_s = recent_rate(now, sum.samples);
  const double passes = event.samples_per_s / static_cast<double>(std::max<std::int64_t>(1, sum.samples));
  for (std::size_t c = 1; c < net_->counts().size(); ++c)
    event.rates.push_back({net_->counts()[c], passes * sum.counts[c], false});
  for (const auto& unit : counted_units(*net_, sum))
    event.rates.push_back({unit.name, passes * unit.value, false});
  observer_.on_step(event);
}

void step_log::end_stretch() {
  seconds_ += seconds_between(begun_, clock::now());
  if (steady_stretch_samples_ > 0) {
    steady_samples_ += static_cast<double>(steady_stretch_samples_);
    steady_steps_ += steady_stretch_steps_;
    steady_seconds_ += seconds_between(steady_begun_, last_step_);
  }
}

} // namespace penstock::actors
