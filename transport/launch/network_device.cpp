// Asks the system for its devices.
#include "transport/launch/network_device.hpp"

#include "kernels/check.hpp"
#include "transport/launch/host.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

namespace penstock::transport {

std::vector<device_address> device_addresses() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) throw error(std::string("[network] cannot list devices: ") + std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, ::freeifaddrs);
  std::vector<device_address> all;
  for (const auto* d = found; d != nullptr; d = d->ifa_next) {
    const int family = d->ifa_addr == nullptr ? AF_UNSPEC : d->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(d->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0)
      all.push_back({d->ifa_name, text.data(), (d->ifa_flags & IFF_UP) != 0, (d->ifa_flags & IFF_RUNNING) != 0});
  }
  return all;
}

std::string network_devices_of(const std::vector<std::string>& addresses) {
  const auto all = device_addresses();
  std::vector<std::string> names;
  std::string list;
  for (const auto& each : addresses) {
    const auto it = std::ranges::find(all, plain_address(each), &device_address::address);
    if (it == all.end()) throw error("[network] no device of this machine has the address " + each);
    if (std::ranges::find(names, it->device) != names.end()) continue;
    names.push_back(it->device);
    list += (list.empty() ? "" : ",") + it->device;
  }
  return list.empty() ? "lo" : list;
}

void await_running(const std::string& devices, std::chrono::milliseconds deadline) {
  constexpr auto look_every = std::chrono::milliseconds(20);
  const auto is_named = [&devices](const std::string& name) {
    return ("," + devices + ",").find("," + name + ",") != std::string::npos;
  };
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (std::chrono::steady_clock::now() < until &&
         std::ranges::any_of(device_addresses(), [&](const auto& d) { return is_named(d.device) && !d.is_running; }))
    std::this_thread::sleep_for(look_every);
}

} // namespace penstock::transport
