// A point in a stream's order of work.
#pragma once

#include <cstdint>
#include <memory>

namespace penstock {

/// Made by backend::record(). Done when the device has finished all that was posted to the stream before it.
class event {
public:
  virtual ~event() = default;
  virtual bool is_done() const = 0;
  /// When the device got there, in ns of std::chrono::steady_clock. Throws std::logic_error before it is done; it is in
  /// the completion of the work that recorded it.
  virtual std::int64_t time_ns() const = 0;
};
using event_ptr = std::shared_ptr<const event>;

/// From one event to another of the same device, in seconds.
inline double seconds_between(const event& begin, const event& end) {
  return 1e-9 * static_cast<double>(end.time_ns() - begin.time_ns());
}

} // namespace penstock
