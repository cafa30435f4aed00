// Who is joined to whom, and how long bytes take between them.
#include "planner/cluster/cluster.hpp"

#include <algorithm>
#include <stdexcept>

namespace penstock::planner {

namespace {

void check_device(const cluster& c, int device) {
  if (device < 0 || device >= c.device_count())
    throw std::invalid_argument("there is no device " + std::to_string(device) + ", the cluster has " +
                                std::to_string(c.device_count()));
}

/// The most of these devices that lie in one run of `span` consecutive numbers.
int most_together(const std::vector<int>& sorted, std::int64_t span) {
  int most = 0;
  int together = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    together = i > 0 && sorted[i] / span == sorted[i - 1] / span ? together + 1 : 1;
    most = std::max(most, together);
  }
  return most;
}

/// Which levels join some two of these devices: neighbours meet on every level that any two meet on.
std::vector<bool> levels_spanned(const cluster& c, const std::vector<int>& sorted) {
  std::vector<bool> spanned(c.levels.size());
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (const auto level = c.level_between(sorted[i - 1], sorted[i]); level >= 0)
      spanned[static_cast<std::size_t>(level)] = true;
  return spanned;
}

} // namespace

int cluster::level_between(int a, int b) const {
  check_device(*this, a);
  check_device(*this, b);
  if (a == b) return -1;
  std::int64_t size = 1;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    size *= levels[i].group;
    if (a / size == b / size) return static_cast<int>(i);
  }
  throw std::invalid_argument("no link joins the devices " + std::to_string(a) + " and " + std::to_string(b));
}

double transfer_seconds(const cluster& c, int from, int to, double bytes) {
  const auto level = c.level_between(from, to);
  if (level < 0) return 0;
  const auto& link = c.levels[static_cast<std::size_t>(level)];
  return link.latency_s + bytes / link.bandwidth_bytes_per_s;
}

double all_reduce_seconds(const cluster& c, const std::vector<int>& devices, double bytes) {
  auto sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  const auto spanned = levels_spanned(c, sorted);
  const auto members = static_cast<double>(devices.size());
  double over_links = 0;
  double in_process = 0;
  bool is_in_process = true;
  std::int64_t span = 1;
  for (std::size_t i = 0; i < spanned.size(); ++i) {
    const auto& link = c.levels[i];
    span *= link.group;
    if (!spanned[i]) continue;
    is_in_process = is_in_process && link.by_reference;
    in_process = std::max(in_process, (members - 1) * bytes / link.bandwidth_bytes_per_s);
    // A medium that all share carries every message once, whichever way it goes; on a link of its own a device sends
    // as much as it receives, which takes twice as long where the directions take turns.
    const double turns = link.shared ? most_together(sorted, span) : link.half_duplex ? 2 : 1;
    over_links = std::max(over_links,
                          2 * (members - 1) * (link.latency_s + bytes / members * turns / link.bandwidth_bytes_per_s));
  }
  return is_in_process ? in_process : over_links;
}

} // namespace penstock::planner
