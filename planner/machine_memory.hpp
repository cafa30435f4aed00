// What the replicas of a virtual machine hold in memory, moment by moment.
#pragma once

#include "planner/machine.hpp"
#include "planner/sequence.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace penstock::planner {

enum class memory_part : std::uint8_t { weights, gradients, optimizer_state, activations, workspace, other };

/// Bytes of one replica: now, and at most.
class replica_memory {
public:
  void add(memory_part part, double bytes);
  void remove(memory_part part, double bytes) { now_[index(part)] -= bytes; }
  /// Sets a part that is known as a whole.
  void set(memory_part part, double bytes);
  double peak() const { return peak_; }
  double peak_of(memory_part part) const { return part_peaks_[index(part)]; }

private:
  static constexpr std::size_t parts = 6;
  static std::size_t index(memory_part part) { return static_cast<std::size_t>(part); }
  void note(memory_part part);

  std::array<double, parts> now_{}, part_peaks_{};
  double peak_ = 0;
};

/// Which weight versions are alive, for one replica or for several that share theirs: the newest, those that forwards
/// in flight captured, those that a forward still to come reads (vertical sync), and one that is being written.
class version_ledger {
public:
  /// The forwards of each replica that reads them, from the first.
  explicit version_ledger(std::vector<stage_passes> readers);

  void capture(std::int64_t version) { hold(version); }
  void release(std::int64_t version);
  /// The replica (by its place among the readers) has begun its next forward.
  void pass_forward(std::size_t replica);
  /// Writes into the newest version's own buffer when nobody else holds it.
  void begin_update();
  void end_update();
  std::int64_t alive() const { return alive_ + (is_written_apart_ ? 1 : 0); }
  std::int64_t most() const { return most_; }

private:
  static std::int64_t oldest_of(const stage_passes& reader);
  std::int32_t& holds_of(std::int64_t version);
  void hold(std::int64_t version);

  std::vector<stage_passes> readers_;
  std::deque<std::int32_t> holds_; // by version, from `first_` on
  std::int64_t first_ = 0;
  std::int64_t newest_ = 0;
  std::int64_t alive_ = 0;
  std::int64_t most_ = 1;
  bool is_written_apart_ = false;
};

} // namespace penstock::planner
