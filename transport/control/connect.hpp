// The way of a rank to rank 0, from nothing to being admitted.
#pragma once

#include "transport/control/hello.hpp"
#include "transport/control/link.hpp"
#include "transport/launch/launch.hpp"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace penstock::transport {

struct admitted_line {
  std::shared_ptr<link> line; ///< may be closed again already
  admission granted;
  /// Frames that came since, and those to come until change() gives the line its user's events.
  std::shared_ptr<std::vector<frame>> early;
};

/// Tries until the deadline, as rank 0 may come later or be busy, with strangers or because its host is. Runs `network`
/// meanwhile, which no thread may do yet and which must not run out of work. Throws error, one line: nobody there,
/// another secret, somebody else there, or why rank 0 refuses this process.
admitted_line connect_to_rank_0(boost::asio::io_context& network, boost::asio::ssl::context& tls, const launch& where,
                                const hello& own, std::chrono::milliseconds deadline);

} // namespace penstock::transport
