// Connects and proves, within bounds.
#include "transport/control/reach.hpp"

#include "kernels/check.hpp"
#include "transport/control/door.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/socket.h>

namespace penstock::transport {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr auto connect_bound = 2s; // for one address
// The kernel takes connections for a rank 0 that may itself not have come so far yet. Whoever gives up and comes again
// only makes a busy one's work more; but what is caught in a broken network must get a second try.
constexpr auto least_handshake_bound = 5s;

} // namespace

std::shared_ptr<link> reach::connect(const tcp::endpoint& address) {
  error_code failed;
  tcp::socket socket(network);
  const int fd = ::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    failed.assign(errno, boost::system::system_category());
  else
    socket.assign(address.protocol(), fd, failed);
  if (!failed)
    failed = run(
        connect_bound, [&](auto done) { socket.async_connect(address, done); }, [&] { socket.close(); });
  if (failed) {
    why = text_of(address) + ": " + failed.message();
    return nullptr;
  }
  auto line = std::make_shared<link>(std::move(socket), address, tls);
  const auto half_of_the_rest = (deadline - clock::now()) / 2;
  failed = run(
      std::max<clock::duration>(least_handshake_bound, half_of_the_rest),
      [&](auto done) { line->stream().async_handshake(tls_stream::client, done); }, [&] { line->cut(); });
  if (failed) {
    if (failed != asio::error::timed_out && fault_of(failed) == handshake_fault::secret)
      throw error("[control] the job's secret differs from that of " + whom + " at " + text_of(address));
    if (failed != asio::error::timed_out && fault_of(failed) == handshake_fault::alien)
      throw error("[control] what answers at " + text_of(address) + " is not " + whom +
                  " of this job: " + text_of(failed));
    why = text_of(address) +
          (failed == asio::error::timed_out ? ": connected, but nobody answers" : ": " + text_of(failed));
    return nullptr;
  }
  if (!is_proved(line->stream()))
    throw error("[control] what answers at " + text_of(address) + " has not proved to know the job's secret");
  return line;
}

} // namespace penstock::transport
