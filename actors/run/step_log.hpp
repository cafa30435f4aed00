// Turns the losses of micro-batches into step events, in the order of minibatches.
#pragma once

#include "actors/trainer.hpp"

#include <chrono>
#include <functional>
#include <map>

namespace penstock::actors {

/// Used by one thread at a time. Sums a minibatch's losses in micro-batch order, so that they repeat.
class step_log {
public:
  step_log(std::shared_ptr<const model> net, run_observer& observer, lr_schedule_options lr, int microbatches,
           std::int64_t per_epoch, std::int64_t total_steps)
      : net_(std::move(net)), observer_(observer), lr_(lr), microbatches_(microbatches), per_epoch_(per_epoch),
        total_steps_(total_steps) {}

  /// Of the minibatches to come; none is pending.
  void set_microbatches(int microbatches) { microbatches_ = microbatches; }
  /// Factors on the learning rate, by minibatch.
  void set_rates(std::function<double(std::int64_t)> rates) { rates_ = std::move(rates); }
  /// Stages that each tell of a micro-batch, of the minibatches to come.
  void set_tellers(int tellers) { tellers_ = tellers; }
  /// The pipeline fills from here on; `in_flight` minibatches are not counted as steady.
  void begin_stretch(std::int64_t first_minibatch, std::int64_t in_flight);
  void add(std::int64_t minibatch, std::int32_t microbatch, const loss_metrics& metrics);
  void end_stretch();

  std::int64_t steps() const { return steps_; }
  std::int64_t samples() const { return samples_; }
  double seconds() const { return seconds_; } ///< spent in stretchs
  double samples_per_s() const { return seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0; }
  /// From the first minibatch that found the pipeline full to the last: without filling; samples_per_s() when runs
  /// were too short.
  double steady_samples_per_s() const {
    return steady_seconds_ > 0 ? steady_samples_ / steady_seconds_ : samples_per_s();
  }

  /// From one minibatch's losses to the next's, mean over what steady_samples_per_s counts, else over all; the same as
  /// a trace's step_time (trace/steps.hpp). 0 before the first.
  double step_seconds() const {
    if (steady_steps_ > 0) return steady_seconds_ / static_cast<double>(steady_steps_);
    return steps_ > 0 ? seconds_ / static_cast<double>(steps_) : 0;
  }

private:
  using clock = std::chrono::steady_clock;
  struct pending {
    std::map<std::int32_t, loss_metrics> parts;
    int came = 0;
  };
  void finish(std::int64_t minibatch, const loss_metrics& sum);
  double recent_rate(clock::time_point now, std::int64_t samples);

  std::shared_ptr<const model> net_;
  run_observer& observer_;
  lr_schedule_options lr_;
  int microbatches_;
  int tellers_ = 1;
  std::function<double(std::int64_t)> rates_;
  std::int64_t per_epoch_;
  std::int64_t total_steps_;
  std::map<std::int64_t, pending> pending_;
  std::int64_t next_ = 0;
  std::int64_t steady_from_ = 0;
  clock::time_point begun_;
  clock::time_point steady_begun_;
  std::int64_t steady_stretch_samples_ = 0;
  std::int64_t steady_stretch_steps_ = 0;
  clock::time_point last_step_;
  std::int64_t steps_ = 0;
  std::int64_t samples_ = 0;
  double seconds_ = 0;
  double steady_seconds_ = 0;
  double steady_samples_ = 0;
  std::int64_t steady_steps_ = 0;
  std::vector<std::pair<clock::time_point, std::int64_t>> recent_;
};

} // namespace penstock::actors
