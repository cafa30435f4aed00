// A connection to a door of the control plane, up to where both sides have proved the secret.
#pragma once

#include "transport/control/link.hpp"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace penstock::transport {

/// Runs `network` itself, which no thread may do yet and which must not run out of work.
struct reach {
  using clock = std::chrono::steady_clock;

  boost::asio::io_context& network;
  boost::asio::ssl::context& tls;
  clock::time_point deadline;
  std::string whom; ///< "rank 0", for messages
  std::string why;  ///< what happened, after a try that may be repeated

  /// One try. Null: `why` says what happened. Throws error, one line, where another try is of no use: another secret,
  /// or somebody else there. The line is not opened yet.
  std::shared_ptr<link> connect(const boost::asio::ip::tcp::endpoint& address);

  /// Starts an operation and runs the network until it ends; `stop` makes it end when the time is up.
  template <class Start, class Stop>
  boost::system::error_code run(clock::duration bound, const Start& start, const Stop& stop) {
    std::optional<boost::system::error_code> result;
    start([&result](const boost::system::error_code& failed) { result = failed; });
    const auto until = std::min(deadline, clock::now() + bound);
    while (!result && clock::now() < until)
      network.run_one_until(until);
    if (result) return *result;
    stop();
    while (!result)
      network.run_one();
    return boost::asio::error::timed_out;
  }
};

} // namespace penstock::transport
