// Reads the number behind a device's colon.
#include "apps/runner/place_plan.hpp"

#include <charconv>
#include <set>
#include <string>
#include <vector>

namespace penstock::apps {

void place_by_devices(const planner::plan& p, int processes, actors::run_options& run) {
  std::vector<std::vector<int>> ranks;
  std::set<int> used;
  for (const auto& stage : p.stages) {
    auto& of_stage = ranks.emplace_back();
    for (const auto& device : stage.devices) {
      const auto colon = device.rfind(':');
      if (colon == std::string::npos) return;
      int rank = 0;
      const char* end = device.data() + device.size();
      const auto [rest, fault] = std::from_chars(device.data() + colon + 1, end, rank);
      if (fault != std::errc{} || rest != end || rank < 0) return;
      if (rank >= processes || !used.insert(rank).second) return; // made for another number of processes
      of_stage.push_back(rank);
    }
    if (of_stage.size() != static_cast<std::size_t>(stage.replicas)) return;
  }
  run.ranks = std::move(ranks);
}

} // namespace penstock::apps
