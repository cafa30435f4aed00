// Checks a cluster and names its devices.
#include "planner/cluster/cluster.hpp"

#include "planner/profile/wording.hpp"

#include <charconv>
#include <cmath>
#include <set>
#include <stdexcept>

namespace penstock::planner {

namespace {

constexpr int most_devices = 65'536;
constexpr double most_bytes = 1e15;

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

void check_number(double value, double least, double most, const std::string& what) {
  if (!std::isfinite(value) || value < least || value > most)
    refuse(what + " is " + number_text(value) + ", wanted a number from " + number_text(least) + " to " +
           number_text(most));
}

void check_integer(int value, int least, const std::string& what) {
  if (value < least || value > most_devices)
    refuse(what + " is " + std::to_string(value) + ", wanted " + std::to_string(least) + " to " +
           std::to_string(most_devices));
}

void check_name(const std::string& name, const std::string& what) {
  constexpr std::size_t longest = 200;
  if (name.size() > longest)
    refuse(what + " has " + std::to_string(name.size()) + " bytes, wanted at most " + std::to_string(longest));
  if (!is_plain_text(name)) refuse(what + " is " + quoted(name) + ", wanted UTF-8 without control characters");
}

void check_streaming(const streaming_device& s, const std::string& what) {
  check_number(s.multipliers, 1, 1e9, what + "multipliers");
  check_number(s.clock_hz, 1, 1e12, what + "clock_hz");
  check_number(s.efficiency, 1e-6, 1, what + "efficiency");
  check_number(s.on_chip_bytes, 0, most_bytes, what + "on_chip_bytes");
  check_number(s.memory_bytes_per_s, 1, most_bytes, what + "memory_bytes_per_s");
}

/// The number of devices.
std::int64_t check_types(const std::vector<device_type>& types) {
  if (types.empty()) refuse("the cluster has no devices");
  std::set<std::string_view> names;
  std::int64_t devices = 0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto& type = types[i];
    const auto which = "device type " + std::to_string(i);
    if (type.name.empty()) refuse(which + " has no name");
    check_name(type.name, "the name of " + which);
    const auto what = "device type " + quoted(type.name);
    if (!names.insert(type.name).second) refuse(what + " is there twice");
    check_integer(type.count, 1, what + ": count");
    check_number(type.memory_bytes, 0, most_bytes, what + ": memory_bytes");
    check_number(type.speed, 1e-6, 1e6, what + ": speed");
    check_integer(type.threads, 0, what + ": threads");
    check_name(type.profile_name, what + ": profile");
    if (type.streaming) check_streaming(*type.streaming, what + ": streaming.");
    devices += type.count;
    if (devices > most_devices)
      refuse("the cluster has " + std::to_string(devices) + " devices or more, wanted at most " +
             std::to_string(most_devices));
  }
  return devices;
}

void check_levels(const std::vector<link_level>& levels, std::int64_t devices) {
  constexpr std::size_t most_levels = 16;
  if (levels.empty() && devices > 1)
    refuse("the cluster has " + std::to_string(devices) + " devices and no links between them");
  if (levels.size() > most_levels)
    refuse("the cluster has " + std::to_string(levels.size()) + " levels of links, wanted at most " +
           std::to_string(most_levels));
  std::int64_t joined = 1;
  std::string product;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const auto& level = levels[i];
    const auto what = "link " + std::to_string(i);
    check_integer(level.group, 1, what + ": group");
    check_number(level.bandwidth_bytes_per_s, 1, most_bytes, what + ": bandwidth_bytes_per_s");
    check_number(level.latency_s, 0, 1e3, what + ": latency_s");
    product += (i > 0 ? " x " : "") + std::to_string(level.group);
    joined = std::min<std::int64_t>(joined * level.group, most_devices + 1); // held: sixteen groups would overflow
  }
  if (joined != devices)
    refuse("the groups of the links join " + product +
           (levels.size() > 1 && joined <= most_devices ? " = " + std::to_string(joined) : "") +
           " devices, and the cluster has " + std::to_string(devices));
}

} // namespace

int cluster::device_count() const {
  int count = 0;
  for (const auto& type : devices)
    count += type.count;
  return count;
}

int cluster::type_of(int device) const {
  int last = 0;
  for (std::size_t i = 0; i < devices.size() && device >= 0; ++i) {
    last += devices[i].count;
    if (device < last) return static_cast<int>(i);
  }
  refuse("there is no device " + std::to_string(device) + ", the cluster has " + std::to_string(device_count()));
}

std::string cluster::device_name(int device) const {
  const auto type = type_of(device);
  for (int i = 0; i < type; ++i)
    device -= devices[static_cast<std::size_t>(i)].count;
  return devices[static_cast<std::size_t>(type)].name + ":" + std::to_string(device);
}

int cluster::device_named(std::string_view device) const {
  const auto colon = device.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == device.size())
    refuse("the device is " + quoted(device) + ", wanted a type and a number, as in " + quoted(device_name(0)));
  const auto type_name = device.substr(0, colon);
  std::vector<std::string> known;
  int first = 0;
  for (const auto& type : devices) {
    if (type.name == type_name) {
      int number = -1;
      const auto [end, error] = std::from_chars(device.data() + colon + 1, device.data() + device.size(), number);
      if (error != std::errc{} || end != device.data() + device.size() || number < 0 || number >= type.count)
        refuse("there is no device " + quoted(device) + ", wanted " + quoted(type.name + ":0") + " to " +
               quoted(type.name + ":" + std::to_string(type.count - 1)));
      return first + number;
    }
    known.push_back(type.name);
    first += type.count;
  }
  refuse("there is no device type " + quoted(type_name) + " in the cluster" + suggestion(type_name, known));
}

void check_cluster(const cluster& c) {
  check_name(c.name, "the name of the cluster");
  check_levels(c.levels, check_types(c.devices));
}

cluster flat_cluster(int count, double bandwidth_bytes_per_s, double latency_s, double memory_bytes) {
  return {.name = "",
          .devices = {{.name = "device", .count = count, .memory_bytes = memory_bytes}},
          .levels = {{.group = count, .bandwidth_bytes_per_s = bandwidth_bytes_per_s, .latency_s = latency_s}}};
}

} // namespace penstock::planner
