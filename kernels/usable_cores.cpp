// Reads the two hierarchies of control groups from the process's own group up to the root.
#include "kernels/usable_cores.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <vector>

namespace penstock {

namespace {

namespace fs = std::filesystem;

std::atomic<int> sharers{1};

// What cannot be read does not limit: the file of the root group, of a kernel without quotas, of another's container.
std::optional<double> first_number(const fs::path& file, double* second = nullptr) {
  std::ifstream in(file);
  double value = 0;
  if (!(in >> value)) return std::nullopt; // "max" too
  if (second != nullptr && !(in >> *second)) return std::nullopt;
  return value;
}

std::optional<double> cpus(std::optional<double> quota, std::optional<double> period) {
  if (!quota || !period || !(*quota > 0) || !(*period > 0)) return std::nullopt; // -1: no limit
  return *quota / *period;
}

std::optional<double> quota_of_version_2(const fs::path& group) {
  double period = 0;
  const auto quota = first_number(group / "cpu.max", &period);
  return cpus(quota, period);
}

std::optional<double> quota_of_version_1(const fs::path& group) {
  return cpus(first_number(group / "cpu.cfs_quota_us"), first_number(group / "cpu.cfs_period_us"));
}

// Inside a container the group's name may begin above what is mounted there: then the longest end of it that is there.
fs::path group_below(const fs::path& mount, const fs::path& name) {
  std::vector<fs::path> parts;
  for (const auto& part : name.relative_path())
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
  std::error_code ignored;
  for (std::size_t from = 0; from < parts.size(); ++from) {
    fs::path below = mount;
    for (std::size_t i = from; i < parts.size(); ++i)
      below /= parts[i];
    if (fs::is_directory(below, ignored)) return below;
  }
  return mount;
}

template <class Read>
void take_least(const fs::path& mount, const fs::path& name, Read read, std::optional<double>& least) {
  for (auto group = group_below(mount, name);; group = group.parent_path()) {
    if (const auto quota = read(group)) least = std::min(least.value_or(*quota), *quota);
    if (group == mount) return;
  }
}

bool is_of_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "cpu") return true;
  return false;
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
  std::optional<double> least;
  std::ifstream groups(root / "proc/self/cgroup");
  const auto mounts = root / "sys/fs/cgroup";
  for (std::string line; std::getline(groups, line);) { // "4:cpu,cpuacct:/user.slice", version 2: "0::/user.slice"
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const fs::path name = line.substr(second + 1);
    std::error_code ignored;
    if (controllers.empty()) {
      take_least(mounts, name, quota_of_version_2, least);
      if (const auto beside = mounts / "unified"; fs::is_directory(beside, ignored))
        take_least(beside, name, quota_of_version_2, least);
    } else if (is_of_cpu(controllers)) {
      for (const auto& mount : {mounts / controllers, mounts / "cpu", mounts / "cpu,cpuacct"})
        if (fs::is_directory(mount, ignored)) take_least(mount, name, quota_of_version_1, least);
    }
  }
  return least;
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
