// Names and addresses into sockets.
#include "transport/control/door.hpp"

#include "kernels/check.hpp"
#include "transport/launch/host.hpp"

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>
#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>

namespace penstock::transport {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

void keep_from_children(int fd) {
  ::fcntl(fd, F_SETFD, ::fcntl(fd, F_GETFD) | FD_CLOEXEC);
}

tcp::acceptor adopt(asio::io_context& network, int fd) {
  int listens = 0;
  socklen_t size = sizeof listens;
  sockaddr_storage own{};
  socklen_t own_size = sizeof own;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      (own.ss_family != AF_INET && own.ss_family != AF_INET6))
    throw error("[control] the inherited descriptor " + std::to_string(fd) + " is no TCP socket that listens");
  keep_from_children(fd);
  ::listen(fd, SOMAXCONN); // whatever the launcher chose: a short queue lets a flood keep ranks out
  return tcp::acceptor(network, own.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), fd);
}

error_code listen_on(tcp::acceptor& door, const tcp::endpoint& address) {
  const int fd = ::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  error_code failed(fd < 0 ? errno : 0, boost::system::system_category());
  if (!failed) door.assign(address.protocol(), fd, failed);
  if (!failed) door.set_option(tcp::acceptor::reuse_address(true), failed);
  // "Any" of IPv6 is any of IPv4 as well.
  if (!failed && address.address().is_v6() && address.address().is_unspecified())
    door.set_option(asio::ip::v6_only(false), failed);
  if (!failed) door.bind(address, failed);
  if (!failed) door.listen(asio::socket_base::max_listen_connections, failed);
  return failed;
}

std::vector<tcp::endpoint> loopbacks(int port) {
  const auto number = static_cast<std::uint16_t>(port);
  return {{asio::ip::address_v4::loopback(), number}, {asio::ip::address_v6::loopback(), number}};
}

std::vector<tcp::endpoint> everywhere(int port) {
  const auto number = static_cast<std::uint16_t>(port);
  return {{asio::ip::address_v6::any(), number}, {asio::ip::address_v4::any(), number}};
}

std::vector<tcp::endpoint> resolve(asio::io_context& network, const launch& where) {
  error_code failed;
  const auto found = tcp::resolver(network).resolve(where.master, std::to_string(where.port), failed);
  if (failed) throw host_unknown(where.master, failed);
  std::vector<tcp::endpoint> all;
  for (const auto& entry : found)
    all.push_back(entry.endpoint());
  return all;
}

bool is_this_host(const tcp::endpoint& address) {
  return is_own_address(address_of(address));
}

bool is_loopback(const tcp::endpoint& address) {
  return is_loopback_name(address_of(address));
}

std::vector<tcp::endpoint> places_to_listen(asio::io_context& network, const launch& where) {
  if (!expects_other_hosts(where)) return loopbacks(where.port);
  const auto own = resolve(network, where);
  if (std::ranges::none_of(own, is_this_host))
    throw error("[control] rank 0 cannot listen on " + where.master + ":" + std::to_string(where.port) + ": " +
                (is_numeric_address(where.master) ? "no device of this host has that address"
                                                  : "that name is another host's, " + address_of(own.front())));
  if (is_numeric_address(where.master) && !is_loopback(own.front())) return own;
  if (!has_reachable_address())
    throw error("[control] ranks of other hosts cannot reach rank 0 at " + where.master + ":" +
                std::to_string(where.port) + ": no device of this host but the loopback is up with an address");
  return everywhere(where.port);
}

} // namespace

tcp::acceptor open_door(asio::io_context& network, const launch& where) {
  if (where.listening_socket >= 0) {
    auto door = adopt(network, where.listening_socket);
    door.non_blocking(true);
    return door;
  }
  error_code first; // the second kind of address may just not be there
  for (const auto& address : places_to_listen(network, where)) {
    tcp::acceptor door(network);
    const auto failed = listen_on(door, address);
    if (!first) first = failed;
    if (failed == asio::error::address_in_use) break;
    if (failed) continue;
    door.non_blocking(true);
    return door;
  }
  throw error("[control] rank 0 cannot listen on " + where.master + ":" + std::to_string(where.port) + ": " +
              first.message());
}

std::vector<tcp::endpoint> ways_to_rank_0(asio::io_context& network, const launch& where) {
  const auto near = loopbacks(where.port);
  if (!expects_other_hosts(where)) return near;
  auto ways = resolve(network, where);
  // The first of a host's ranks, and not the first of all: rank 0 is elsewhere.
  if (where.hosts == spread::several_hosts && where.local_rank == 0 && std::ranges::all_of(ways, is_loopback))
    throw error("[control] rank " + std::to_string(where.rank) + " looks for rank 0 at " + where.master +
                ", which is " + address_of(ways.front()) +
                " here: its own host, while rank 0 runs on another; wanted a name or " + "address of that one");
  if (std::ranges::any_of(ways, is_this_host)) ways.insert(ways.end(), near.begin(), near.end());
  return ways;
}

std::string address_of(const tcp::endpoint& address) {
  return plain_address(address.address().to_string());
}

std::string text_of(const tcp::endpoint& address) {
  const auto host = address_of(address);
  const bool has_colons = host.find(':') != std::string::npos;
  return (has_colons ? "[" + host + "]" : host) + ":" + std::to_string(address.port());
}

} // namespace penstock::transport
