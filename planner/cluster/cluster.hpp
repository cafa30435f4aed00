// What a model may run on: devices by type and the links between them, level by level. The planner's second input.
#pragma once

#include "planner/profile/profile.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::planner {

/// A device that computes with multipliers and streams activations, as an FPGA does (BaPipe, arXiv 2012.12544).
struct streaming_device {
  double multipliers = 0; ///< DSP slices; one multiply-add a cycle each
  double clock_hz = 0;
  double efficiency = 1; ///< share of the multipliers that work, in (0, 1]
  double on_chip_bytes = 0;
  double memory_bytes_per_s = 0; ///< DDR or HBM
};

struct device_type {
  std::string name;
  int count = 1;
  double memory_bytes = 0;                    ///< of one device; 0: not limited
  double speed = 1;                           ///< relative to the profile's machine: times are divided by it
  int threads = 0;                            ///< compute threads of a worker on it; 0: the profile's first
  std::string profile_name;                   ///< "v100.json": a profile of its own instead of `speed`; "" if none
  std::shared_ptr<const profile> own_profile; ///< of the same model; set by who read the files
  std::optional<streaming_device> streaming;
};

/// One level of links, joining `group` components of the level below (devices, for the innermost).
struct link_level {
  int group = 1;
  double bandwidth_bytes_per_s = 0; ///< per device, each direction, unless shared
  double latency_s = 0;
  bool shared = false;       ///< one medium for all devices of the group together
  bool half_duplex = false;  ///< both directions take turns
  bool by_reference = false; ///< workers of one process: a message passes references, the receiver holds no copy
};

/// Devices are numbered from 0 in the order of `devices`; a level's components are runs of consecutive numbers.
struct cluster {
  std::string name;
  std::vector<device_type> devices;
  std::vector<link_level> levels; ///< innermost first; the product of their groups is the number of devices

  int device_count() const;
  int type_of(int device) const;
  /// "v100:3", the fourth of its type.
  std::string device_name(int device) const;
  /// The number of a device by that name. Throws std::invalid_argument that names the nearest or the range.
  int device_named(std::string_view device) const;
  /// The innermost level that joins both; -1 for a device with itself.
  int level_between(int a, int b) const;
};

/// Throws std::invalid_argument, one line: no devices, several without links, a duplicate or empty type, a name with
/// control characters, counts below 1 or above 65536 in all, numbers that are negative, not finite or absurd, zero
/// bandwidth, groups whose product is not the number of devices.
void check_cluster(const cluster& c);

/// TOML as DESIGN section 5 describes it, with every member above as a key: [[device]] (one of speed, profile and
/// [device.streaming]), [[link]], and a name. An unknown key is refused with the nearest. `source` names the text in
/// errors (std::invalid_argument, one line, with the line's number where there is one).
cluster cluster_from_toml(std::string_view text, const std::string& source);
/// Throws as check_cluster().
std::string to_toml(const cluster& c);

/// `count` devices of one type on one level: for tests and for a run's own machine.
cluster flat_cluster(int count, double bandwidth_bytes_per_s, double latency_s = 0, double memory_bytes = 0);

/// Seconds to bring `bytes` from one device to another with nothing else on the way: latency + bytes / bandwidth of the
/// innermost level that joins them.
double transfer_seconds(const cluster& c, int from, int to, double bytes);

/// Seconds of an all-reduce of `bytes` among these different devices: each owns a share, sums it and hands it round (a
/// ring's 2 (m - 1) / m bytes a device each way, in 2 (m - 1) messages), at the slowest level that joins any two of
/// them. A shared level's bandwidth is divided by those of them that lie in one component of it; another's is halved
/// where it is half duplex. Where all are in one process, (m - 1) sets of `bytes` are read and added instead. 0 for
/// fewer than two.
double all_reduce_seconds(const cluster& c, const std::vector<int>& devices, double bytes);

} // namespace penstock::planner
