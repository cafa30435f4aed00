// How many cores this process may use: what it is bound to, and what its control groups' CPU quotas pay for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace penstock {

/// CPUs' worth of time a second that the quotas of this process's control groups leave it, 2.5 for two and a half: the
/// least of its own group and of all above it, of both hierarchies (cpu.max of version 2, cpu.cfs_quota_us of version
/// 1). Nothing where none is limited, or where the system does not say. `root` stands for "/".
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// Cores that this process is bound to, at least 1.
int bound_cores();

/// Cores worth a thread: those bound to, but no more than this process's part of the quota pays for in full, since two
/// threads that wait for each other on one CPU's worth are slower than one. At least 1.
int usable_cores();

/// The quota is for all processes of the job on this host together: from now on this one counts on an equal part.
void share_quota(int processes);

/// Whether the quota leaves fewer cores than the binding does; then the host has more work than ours, and no core of
/// those bound to is better than another.
bool quota_limits();

/// For the log: "1 of 4 cores is used: the control group's CPU quota pays for 1.5"; "" where the quota does not limit.
std::string quota_note();

} // namespace penstock
