// Where rank 0 listens, and where the others look for it.
#pragma once

#include "kernels/check.hpp"
#include "transport/launch/launch.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <vector>

namespace penstock::transport {

/// A name that the system does not know, or cannot ask for now.
class host_unknown : public error {
public:
  host_unknown(const std::string& host, const boost::system::error_code& why)
      : error("[control] rank 0's host '" + host + "' is not known: " + why.message()),
        may_come_(why == boost::asio::error::host_not_found_try_again) {}
  bool may_come() const { return may_come_; } ///< whoever is asked for names has not answered
private:
  bool may_come_;
};

/// Rank 0's listening socket: the one inherited (>= 0), which is taken over, or a new one at the launch's port. On the
/// loopback for a job of one host; at the master's address where that is a number; else on all devices, since a host's
/// own name often leads to its loopback only (Debian's 127.0.1.1), while others know it by another address. Children do
/// not inherit it. Throws error, one line: the port is in use, the address or name is not this host's, ranks are
/// expected on other hosts but only the loopback is up, or the socket is none that listens.
boost::asio::ip::tcp::acceptor open_door(boost::asio::io_context& network, const launch& where);

/// Where to look for rank 0, the likeliest first; all spellings of this host lead to its loopback too. Asks the system
/// for the name each time. Throws host_unknown for one that it does not know, error where the name leads to this host
/// although rank 0 is known to run on another.
std::vector<boost::asio::ip::tcp::endpoint> ways_to_rank_0(boost::asio::io_context& network, const launch& where);

/// "1.2.3.4:80" or "[::1]:80"; an IPv4 address on a socket of IPv6 as the former.
std::string text_of(const boost::asio::ip::tcp::endpoint& address);
/// The address alone.
std::string address_of(const boost::asio::ip::tcp::endpoint& address);

} // namespace penstock::transport
