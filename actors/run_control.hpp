// What those who want a run to end, and the run's long parts, tell each other.
#pragma once

#include "actors/run/plan_wishes.hpp"
#include "kernels/check.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace penstock::actors {

/// What a run is at: decides what an end has to wait for.
enum class run_part : std::uint8_t {
  nothing_to_lose, ///< nothing was trained that is not saved: it may end anywhere
  training,        ///< minibatches are in flight
  evaluating,      ///< of what was trained: given up at the next micro-batch
  saving,          ///< what was trained is gathered, hashed or written: that is finished first
};

/// Wishes are set from signal handlers or any thread and polled by the run, which sets the rest.
struct run_control {
  std::atomic<bool> stop{false};       ///< finish what is admitted, checkpoint, leave
  std::atomic<bool> checkpoint{false}; ///< drain, checkpoint, go on
  /// The run drains as soon as it can.
  bool wants_drain() const { return stop || checkpoint || plan_wishes.has_any(); }

  std::atomic<run_part> part{run_part::nothing_to_lose};
  std::atomic<bool> has_folder{false}; ///< an end writes a checkpoint
  actors::plan_wishes plan_wishes;     ///< of a job, rank 0's count
};

/// A wish to stop was followed where there was nothing to save.
class run_stopped : public error {
public:
  run_stopped() : error("stopped before anything was trained") {}
};

/// For every loop that may take long while there is nothing to lose. Throws run_stopped.
inline void give_up_if_asked(const run_control& control) {
  if (control.stop) throw run_stopped();
}

/// How far a long part of a run has come.
struct part_progress {
  std::string what; ///< "evaluating"
  std::int64_t done = 0;
  std::int64_t total = 0; ///< 0: not known, it just takes its time
  std::string unit = "samples";
  bool is_even = true; ///< each takes about as long as another: time left is told
};

} // namespace penstock::actors
