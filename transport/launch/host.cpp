// Asks the system which addresses are this machine's.
#include "transport/launch/host.hpp"

#include "transport/launch/network_device.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cctype>
#include <netinet/in.h>
#include <sys/socket.h>

namespace penstock::transport {

namespace {

constexpr const char* mapped = "::ffff:"; // an address of IPv4 on a socket of IPv6

bool is_ipv4(const std::string& text) {
  in_addr ignored{};
  return ::inet_pton(AF_INET, text.c_str(), &ignored) == 1;
}

bool is_ipv6(const std::string& text) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), &ignored) == 1;
}

bool is_loopback_address(const std::string& plain) {
  if (is_ipv4(plain)) return plain.starts_with("127.");
  in6_addr address{};
  return ::inet_pton(AF_INET6, plain.c_str(), &address) == 1 && IN6_IS_ADDR_LOOPBACK(&address);
}

} // namespace

std::string plain_address(const std::string& address) {
  if (address.starts_with(mapped) && is_ipv4(address.substr(std::char_traits<char>::length(mapped))))
    return address.substr(std::char_traits<char>::length(mapped));
  return address;
}

bool is_numeric_address(const std::string& host) {
  return is_ipv4(host) || is_ipv6(host);
}

bool is_loopback_name(const std::string& host) {
  std::string name = host;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.ends_with('.')) name.pop_back();
  constexpr std::array<const char*, 4> names{"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"};
  return std::ranges::find(names, name) != names.end() || name.ends_with(".localhost") ||
         is_loopback_address(plain_address(name));
}

bool is_own_address(const std::string& address) {
  const auto plain = plain_address(address);
  if (is_loopback_address(plain)) return true;
  return std::ranges::any_of(device_addresses(), [&plain](const auto& d) { return d.address == plain; });
}

bool has_reachable_address() {
  return std::ranges::any_of(device_addresses(), [](const auto& d) {
    in6_addr ipv6{};
    const bool is_of_the_link = ::inet_pton(AF_INET6, d.address.substr(0, d.address.find('%')).c_str(), &ipv6) == 1 &&
                                IN6_IS_ADDR_LINKLOCAL(&ipv6);
    return d.is_up && !is_of_the_link && !is_loopback_address(d.address);
  });
}

} // namespace penstock::transport
