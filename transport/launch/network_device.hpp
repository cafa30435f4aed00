// This machine's network devices and their addresses.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace penstock::transport {

struct device_address {
  std::string device;  ///< "eth0"
  std::string address; ///< "10.0.0.1", "fe80::1%eth0"
  bool is_up = false;
  bool is_running = false; ///< the system has seen its carrier, which it may a second after the first packet
};

/// Throws penstock::error with the system's reason.
std::vector<device_address> device_addresses();

/// The devices that have these addresses, each once, with commas: "eth0,ib0"; "lo" where no address is given. Throws
/// penstock::error that names an address which no device has.
std::string network_devices_of(const std::vector<std::string>& addresses);

/// Waits until all devices of the list are running, which UCX asks of them, or the time is up.
void await_running(const std::string& devices, std::chrono::milliseconds deadline);

} // namespace penstock::transport
