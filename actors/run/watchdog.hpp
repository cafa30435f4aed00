// Tells a slow rank from a stalled run: pure bookkeeping of rank 0's coordinator, with the clock passed in.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::actors {

/// Watches the sum of all ranks' progress. When nothing has moved for a while it asks everybody why: who computes all
/// the while is slow and named, once for each standstill; after `stall_seconds` the run is stalled.
class run_watchdog {
public:
  using clock = std::chrono::steady_clock;

  struct verdict {
    bool ask = false;              ///< now ask all ranks to describe what they wait for
    std::vector<std::string> slow; ///< notes for the user
    std::string stalled;           ///< the run's failure, with the wait-for graph
  };

  run_watchdog() = default;
  run_watchdog(double stall_seconds, int ranks);

  void restart(clock::time_point now);
  void progress(int rank, std::int64_t finished);
  void description(int rank, const std::string& text);
  verdict look(clock::time_point now);
  /// For the other ranks: true about once a second.
  bool is_time_to_report(clock::time_point now);

private:
  double seconds_since_progress(clock::time_point now) const;
  std::string graph() const;

  double stall_seconds_ = 300;
  double slow_seconds_ = 10;
  std::vector<std::int64_t> finished_ = {0};
  std::int64_t seen_ = -1;
  clock::time_point progress_at_{};
  clock::time_point reported_at_{};
  enum class stage : std::uint8_t { moving, asked_who_is_slow, named_the_slow, asked_why } at_ = stage::moving;
  clock::time_point asked_at_{};
  std::vector<std::string> descriptions_;
};

} // namespace penstock::actors
