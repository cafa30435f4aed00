// A run's trace cut into the files that its ranks would have written, each on the clock of its host.
#pragma once

#include "actors/trace/reader.hpp"
#include "planner/schedule.hpp"
#include "tests/trace/synthetic_run.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace penstock::actors {

struct rank_place {
  std::string host;
  std::int64_t clock_ns = 0;        ///< what the host's clock shows more than the true time
  std::int64_t measured_off_ns = 0; ///< what the measured offset to rank 0's clock is wrong by
};

/// The ranks' files of one run; they go with it.
class split_run {
public:
  /// `whole` is in true time. Records of the source and the metrics are rank 0's.
  split_run(const trace_file& whole, std::vector<std::vector<int>> ranks, std::vector<rank_place> places);

  void write() const;
  /// Of all ranks but those left out.
  std::vector<std::filesystem::path> paths(const std::vector<int>& left_out = {}) const;
  const std::filesystem::path& path(int rank) const { return files_.at(static_cast<std::size_t>(rank))->path(); }

  /// By rank; a test may change them before it writes.
  std::vector<synthetic_run> parts;

private:
  std::vector<std::unique_ptr<scratch_file>> files_;
};

/// A simulated run with messages and all-reduces that take time; times begin at `begin_ns`. Forwards take 1 ms and
/// backwards 2 ms on each replica, times `slowness` of the stage; a message takes at least 0.5 ms.
trace_file simulate_ranks(const planner::schedule_request& request, std::int64_t begin_ns, double jitter = 0,
                          std::uint64_t seed = 1, const std::vector<double>& slowness = {});

} // namespace penstock::actors
