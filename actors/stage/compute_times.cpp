// A bounded memory of durations.
#include "actors/stage/compute_times.hpp"

#include <algorithm>

namespace penstock::actors {

namespace {
constexpr std::size_t kept_durations = 4096;
}

void duration_log::add(double seconds) {
  if (latest_.size() < kept_durations)
    latest_.push_back(static_cast<float>(seconds));
  else
    latest_[static_cast<std::size_t>(count_) % kept_durations] = static_cast<float>(seconds);
  ++count_;
}

double duration_log::median_seconds() const {
  if (latest_.empty()) return 0;
  auto sorted = latest_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

} // namespace penstock::actors
