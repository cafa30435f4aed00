// The next plan epoch, made ready while the one at hand still trains.
#pragma once

#include "actors/run/plan_epoch.hpp"

#include <atomic>
#include <future>

namespace penstock::actors {

/// Begins at once, on a thread of its own; given up with the object, within milliseconds for all that takes long. What
/// it is told of must outlive it.
class plan_preparation {
public:
  plan_preparation(plan_change change, const plan_epoch& now, const run_inputs& inputs)
      : change_(std::move(change)), next_(std::async(std::launch::async, [this, &now, &inputs] {
          return now.prepare(change_.plan, inputs, given_up_);
        })) {}
  ~plan_preparation() { given_up_ = true; }
  plan_preparation(const plan_preparation&) = delete;
  plan_preparation& operator=(const plan_preparation&) = delete;

  bool is_of(const plan_change& c) const { return c.step == change_.step && c.plan == change_.plan; }
  /// Waits for it; once. Throws what went wrong.
  std::unique_ptr<plan_epoch> take() { return next_.get(); }

private:
  plan_change change_;
  std::atomic<bool> given_up_ = false;
  std::future<std::unique_ptr<plan_epoch>> next_; // last: it waits for the thread, which uses the others
};

} // namespace penstock::actors
