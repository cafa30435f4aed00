// Asks the system's routing table, by way of a datagram socket that sends nothing.
#include "transport/launch/network_device.hpp"

#include "kernels/check.hpp"

#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::transport {

namespace {

struct any_address {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

any_address resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), "9", &hints, &found); code != 0)
    throw error("[network] host '" + host + "' is not known: " + ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  any_address a;
  std::memcpy(&a.storage, found->ai_addr, found->ai_addrlen);
  a.size = found->ai_addrlen;
  return a;
}

// The local address of a connection to there.
any_address local_end(const any_address& there, const std::string& host) {
  const int fd = ::socket(there.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  any_address here;
  const bool ok = fd >= 0 && ::connect(fd, there.get(), there.size) == 0 && ::getsockname(fd, here.get(), &here.size) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (!ok) throw error("[network] nothing leads to host '" + host + "': " + std::strerror(reason));
  return here;
}

bool same_host(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET)
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr,
                       &reinterpret_cast<const sockaddr_in*>(b)->sin_addr, sizeof(in_addr)) == 0;
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

} // namespace

std::string network_device_towards(const std::string& host, bool is_own) {
  const auto there = resolve(host);
  const auto here = is_own ? there : local_end(there, host);
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) throw error(std::string("[network] cannot list devices: ") + std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, ::freeifaddrs);
  for (const auto* device = found; device != nullptr; device = device->ifa_next)
    if (same_host(device->ifa_addr, here.get())) return device->ifa_name;
  if (here.get()->sa_family == AF_INET &&
      (ntohl(reinterpret_cast<const sockaddr_in*>(here.get())->sin_addr.s_addr) >> 24) == 127)
    return "lo"; // 127.0.1.1, as Debian names the machine itself
  throw error("[network] no device of this machine has the address of host '" + host + "'");
}

} // namespace penstock::transport
