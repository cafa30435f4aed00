// A point in the order of a delayed device's work.
#pragma once

#include "kernels/event.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>

namespace penstock::testing {

class delayed_event final : public event {
public:
  bool is_done() const override;
  std::int64_t time_ns() const override;

  void reach() const;      ///< by the thread of the device that comes there
  void wait_until() const; ///< by that of another one

private:
  mutable std::mutex mutex_;
  mutable std::condition_variable reached_;
  mutable std::optional<std::int64_t> time_ns_;
};

} // namespace penstock::testing
