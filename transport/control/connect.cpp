// Connects, proves, says hello and hears the answer, one after the other, again and again.
#include "transport/control/connect.hpp"

#include "kernels/check.hpp"
#include "transport/control/door.hpp"
#include "transport/control/verdict.hpp"
#include "transport/control/words.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <sys/socket.h>
#include <thread>

namespace penstock::transport {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

using clock = std::chrono::steady_clock;

constexpr auto first_pause = 20ms;
constexpr auto longest_pause = 250ms;
constexpr auto connect_bound = 2s; // for one address
// The kernel takes connections for a rank 0 that may itself not have come so far yet. Whoever gives up and comes again
// only makes a busy one's work more; but what is caught in a broken network must get a second try.
constexpr auto least_handshake_bound = 5s;
constexpr auto names_bound = 10s; // for whoever knows the names of hosts

/// One try. Nothing: try again, `why` says what happened.
struct attempt {
  asio::io_context& network;
  asio::ssl::context& tls;
  const hello& own;
  clock::time_point deadline;
  std::string why;

  std::optional<admitted_line> connect(const tcp::endpoint& address);
  std::optional<admitted_line> greet(const std::shared_ptr<link>& line);

  /// Starts an operation and runs the network until it ends; `stop` makes it end when the time is up.
  template <class Start, class Stop>
  error_code run(clock::duration bound, const Start& start, const Stop& stop) {
    std::optional<error_code> result;
    start([&result](const error_code& failed) { result = failed; });
    const auto until = std::min(deadline, clock::now() + bound);
    while (!result && clock::now() < until)
      network.run_one_until(until);
    if (result) return *result;
    stop();
    while (!result)
      network.run_one();
    return asio::error::timed_out;
  }
};

std::optional<admitted_line> attempt::connect(const tcp::endpoint& address) {
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
    return {};
  }
  const auto line = std::make_shared<link>(std::move(socket), address, tls);
  const auto half_of_the_rest = (deadline - clock::now()) / 2;
  failed = run(
      std::max<clock::duration>(least_handshake_bound, half_of_the_rest),
      [&](auto done) { line->stream().async_handshake(tls_stream::client, done); }, [&] { line->cut(); });
  if (failed) {
    if (failed != asio::error::timed_out && fault_of(failed) == handshake_fault::secret)
      throw error("[control] the job's secret differs from that of rank 0 at " + text_of(address));
    if (failed != asio::error::timed_out && fault_of(failed) == handshake_fault::alien)
      throw error("[control] what answers at " + text_of(address) + " is not rank 0 of this job: " + text_of(failed));
    why = text_of(address) +
          (failed == asio::error::timed_out ? ": connected, but nobody answers" : ": " + text_of(failed));
    return {};
  }
  if (!is_proved(line->stream()))
    throw error("[control] what answers at " + text_of(address) + " has not proved to know the job's secret");
  return greet(line);
}

std::optional<admitted_line> attempt::greet(const std::shared_ptr<link>& line) {
  // Kept alive by the line's events, which go on until others replace them.
  struct hearing {
    std::vector<frame> frames;
    std::string garbage;
    bool closed = false;
  };
  const auto heard = std::make_shared<hearing>();
  line->open({.on_frame = [heard](frame f) { heard->frames.push_back(std::move(f)); },
              .on_closed = [heard] { heard->closed = true; },
              .on_garbage = [heard](const std::string& what) { heard->garbage = what; }},
             {frame_kind::admitted, frame_kind::refused, frame_kind::too_early, frame_kind::failed, frame_kind::lost,
              frame_kind::welcome, frame_kind::blob, frame_kind::message, frame_kind::pulse, frame_kind::all_left});
  line->send(std::make_shared<const std::string>(encode(frame{.kind = frame_kind::hello, .payload = encode(own)})));
  while (heard->frames.empty() && !heard->closed && heard->garbage.empty() && clock::now() < deadline)
    network.run_one_until(deadline);
  if (!heard->garbage.empty()) throw error("[control] rank 0 at " + line->address() + " sent " + heard->garbage);
  if (heard->frames.empty()) {
    why = heard->closed ? "the connection was closed" : "no answer to the hello";
    line->cut();
    return {};
  }
  const auto answer = std::move(heard->frames.front());
  heard->frames.erase(heard->frames.begin());
  if (answer.kind == frame_kind::admitted)
    return admitted_line{line, decode_admission(answer.payload), {heard, &heard->frames}};
  line->cut();
  if (answer.kind == frame_kind::failed || answer.kind == frame_kind::lost) throw job_failed(failure_of(answer));
  if (answer.kind == frame_kind::too_early) {
    why = "it still belongs to the job before";
    return {};
  }
  throw error("[control] rank 0 at " + line->address() + " refuses this process: " + answer.payload);
}

} // namespace

admitted_line connect_to_rank_0(asio::io_context& network, asio::ssl::context& tls, const launch& where,
                                const hello& own, std::chrono::milliseconds deadline) {
  const auto begun = clock::now();
  attempt next{network, tls, own, begun + deadline, ""};
  for (auto pause = std::chrono::milliseconds(first_pause);;
       pause = std::min<std::chrono::milliseconds>(2 * pause, longest_pause)) {
    try {
      std::string first; // the likeliest way's reason says most
      for (const auto& address : ways_to_rank_0(network, where)) {
        if (auto line = next.connect(address)) return *line;
        if (first.empty()) first = next.why;
      }
      next.why = first;
    } catch (const host_unknown& e) {
      if (!e.may_come() || clock::now() - begun >= names_bound) throw;
      next.why = e.what();
    }
    if (clock::now() + pause >= next.deadline)
      throw error("[control] rank " + std::to_string(own.rank) + " has not reached rank 0 at " + where.master + ":" +
                  std::to_string(where.port) + " within " + text_of(deadline) + ": " + next.why);
    std::this_thread::sleep_for(pause);
  }
}

} // namespace penstock::transport
