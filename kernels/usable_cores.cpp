// Threads that run at once, from binding and quota.
#include "kernels/usable_cores.hpp"

#include "kernels/control_groups.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <sched.h>

namespace penstock {

namespace {

namespace fs = std::filesystem;

std::atomic<int> sharers{1};

std::optional<double> cpus(std::optional<double> quota, std::optional<double> period) {
  if (!quota || !period || !(*quota > 0) || !(*period > 0)) return std::nullopt; // -1: no limit
  return *quota / *period;
}

std::optional<double> quota_of_version_2(const fs::path& group) {
  double period = 0;
  const auto quota = first_number_in(group / "cpu.max", &period);
  return cpus(quota, period);
}

std::optional<double> quota_of_version_1(const fs::path& group) {
  return cpus(first_number_in(group / "cpu.cfs_quota_us"), first_number_in(group / "cpu.cfs_period_us"));
}

int whole_cpus(double quota) {
  constexpr double rounding = 1e-6; // three periods of 33,333 us are one
  return std::max(1, static_cast<int>(std::floor(std::min(quota, 1e6) + rounding)));
}

int cores_paid_for() {
  const auto quota = cpu_quota();
  return quota ? whole_cpus(*quota / sharers) : bound_cores();
}

} // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  return least_of_groups(root, "cpu", quota_of_version_2, quota_of_version_1);
}

int bound_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int usable_cores() {
  return std::min(bound_cores(), cores_paid_for());
}

void share_quota(int processes) {
  sharers = std::max(1, processes);
}

bool quota_limits() {
  return cores_paid_for() < bound_cores();
}

std::string quota_note() {
  const auto quota = cpu_quota();
  const int bound = bound_cores();
  if (!quota || whole_cpus(*quota / sharers) >= bound) return "";
  const int used = whole_cpus(*quota / sharers);
  char text[160];
  std::snprintf(text, sizeof text, "%d of %d cores %s used: the control group's CPU quota pays for %.3g", used, bound,
                used == 1 ? "is" : "are", *quota);
  return text + (sharers > 1 ? ", shared by " + std::to_string(sharers) + " processes" : std::string());
}

} // namespace penstock
