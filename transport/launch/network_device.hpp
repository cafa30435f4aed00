// Which network device leads to another host.
#pragma once

#include <string>

namespace penstock::transport {

/// The device that a connection to `host` goes out by ("eth0"); "lo" for this machine's loopback. `is_own`: the host is
/// this one, and the device is the one that has its address. Throws penstock::error when the name is not known or nothing
/// leads there.
std::string network_device_towards(const std::string& host, bool is_own);

} // namespace penstock::transport
