// How long each part of a run took.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace penstock::apps {

/// A run is in one part at a time. Used by one thread at a time.
class part_clock {
public:
  explicit part_clock(std::string part) : part_(std::move(part)) {}

  /// From now on the run is in this part.
  void enter(const std::string& part) {
    if (part == part_) return;
    close();
    part_ = part;
  }

  /// Seconds by part, those of the part that goes on included, in the order in which they were first entered.
  const std::vector<std::pair<std::string, double>>& seconds() {
    close();
    return seconds_;
  }

private:
  using clock = std::chrono::steady_clock;

  void close() {
    const auto now = clock::now();
    const auto passed = std::chrono::duration<double>(now - since_).count();
    since_ = now;
    for (auto& [part, sum] : seconds_)
      if (part == part_) {
        sum += passed;
        return;
      }
    seconds_.emplace_back(part_, passed);
  }

  std::string part_;
  clock::time_point since_ = clock::now();
  std::vector<std::pair<std::string, double>> seconds_;
};

} // namespace penstock::apps
