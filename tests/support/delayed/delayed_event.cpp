// Time and arrival.
#include "tests/support/delayed/delayed_event.hpp"

#include "kernels/check.hpp"

#include <chrono>

namespace penstock::testing {

bool delayed_event::is_done() const {
  const std::lock_guard lock(mutex_);
  return time_ns_.has_value();
}

std::int64_t delayed_event::time_ns() const {
  const std::lock_guard lock(mutex_);
  check(time_ns_.has_value(), "the time of an event that the device has not come to");
  return *time_ns_;
}

void delayed_event::reach() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  {
    const std::lock_guard lock(mutex_);
    time_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }
  reached_.notify_all();
}

void delayed_event::wait_until() const {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [this] { return time_ns_.has_value(); });
}

} // namespace penstock::testing
