// Accepts visitors and gives each of them little: a place among few, two seconds, one small frame.
#include "transport/control/listener.hpp"

#include "kernels/check.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>

namespace penstock::transport {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int accepted_at_once = 16; // so that a flood leaves time for the ranks
constexpr auto pause_when_full = std::chrono::milliseconds(100);

} // namespace

struct listener::visitor {
  visitor(std::uint64_t n, std::shared_ptr<link> l, asio::io_context& network)
      : number(n), line(std::move(l)), timer(network, patience) {}
  std::uint64_t number;
  std::shared_ptr<link> line;
  asio::steady_timer timer;
  bool answered = false;
};

listener::listener(asio::io_context& network, tcp::acceptor door, asio::ssl::context& tls, greeter greet,
                   reporter report)
    : network_(network), door_(std::move(door)), pause_(network), tls_(tls), greet_(std::move(greet)),
      report_(std::move(report)) {}

listener::~listener() {
  stop();
}

void listener::start() {
  wait();
}

void listener::stop() {
  stopped_ = true;
  error_code ignored;
  door_.close(ignored);
  pause_.cancel();
  while (!visitors_.empty()) {
    const auto v = visitors_.begin()->second;
    if (v->answered) { // its line ends by itself
      v->timer.cancel();
      visitors_.erase(v->number);
    } else {
      forget(v);
    }
  }
}

void listener::wait() {
  door_.async_wait(tcp::acceptor::wait_read, [this](const error_code& failed) {
    if (stopped_ || failed == asio::error::operation_aborted) return;
    accept_some();
  });
}

// By hand, since Asio would let children inherit the connections.
void listener::accept_some() {
  for (int i = 0; i < accepted_at_once; ++i) {
    tcp::endpoint from;
    auto size = static_cast<socklen_t>(from.capacity());
    const int fd = ::accept4(door_.native_handle(), from.data(), &size, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0) return pause(); // no descriptors or memory: the visitor stays at the door, which must not spin
    from.resize(size);
    error_code failed;
    tcp::socket socket(network_);
    socket.assign(from.protocol(), fd, failed);
    if (failed)
      ::close(fd);
    else
      receive(std::move(socket), from);
  }
  wait();
}

void listener::pause() {
  pause_.expires_after(pause_when_full);
  pause_.async_wait([this](const error_code& failed) {
    if (!failed && !stopped_) wait();
  });
}

void listener::receive(tcp::socket socket, const tcp::endpoint& from) {
  // A rank needs milliseconds, so the oldest visitor is the least likely to be one: it makes room for the newest.
  if (visitors_.size() >= most_visitors) turn_away(visitors_.begin()->second, "too many connections at once");
  auto line = std::make_shared<link>(std::move(socket), from, tls_);
  const auto v = std::make_shared<visitor>(next_number_++, std::move(line), network_);
  visitors_.emplace(v->number, v);
  v->timer.async_wait([this, v](const error_code& failed) {
    if (!failed) turn_away(v, "it has not said who it is within " + std::to_string(patience.count()) + " s");
  });
  v->line->stream().async_handshake(tls_stream::server, [this, v](const error_code& failed) {
    if (!v->line->is_open()) return;
    if (failed) return turn_away(v, text_of(failed));
    if (!is_proved(v->line->stream())) return turn_away(v, "it has not proved to know the job's secret");
    expect_hello(v);
  });
}

void listener::expect_hello(const std::shared_ptr<visitor>& v) {
  v->line->open({.on_frame = [this, v](const frame& hello) { greet(v, hello); },
                 .on_closed = [this, v] { turn_away(v, "it left before it said who it is"); },
                 .on_garbage = [this, v](const std::string& why) { turn_away(v, "no hello: " + why); }},
                {frame_kind::hello});
}

void listener::greet(const std::shared_ptr<visitor>& v, const frame& hello) {
  if (greet_(v->line, hello)) {
    v->timer.cancel();
    visitors_.erase(v->number);
  }
}

void listener::dismiss(const std::shared_ptr<link>& line, const frame& answer) {
  if (answer.kind != frame_kind::too_early) report_(line->address(), answer.payload);
  line->send(std::make_shared<const std::string>(encode(answer)));
  line->finish();
  for (const auto& [number, v] : visitors_) {
    if (v->line == line) v->answered = true;
  }
}

void listener::turn_away(const std::shared_ptr<visitor>& v, const std::string& why) {
  if (!v->answered) report_(v->line->address(), why);
  forget(v);
}

void listener::forget(const std::shared_ptr<visitor>& v) {
  v->timer.cancel();
  v->line->cut();
  visitors_.erase(v->number);
}

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
  if (!failed) door.bind(address, failed);
  if (!failed) door.listen(asio::socket_base::max_listen_connections, failed);
  return failed;
}

} // namespace

tcp::acceptor open_door(asio::io_context& network, const std::string& host, int port, int inherited) {
  if (inherited >= 0) {
    auto door = adopt(network, inherited);
    door.non_blocking(true);
    return door;
  }
  error_code failed;
  const auto found = tcp::resolver(network).resolve(host, std::to_string(port), failed);
  if (failed) throw error("[control] rank 0 cannot listen on '" + host + "': " + failed.message());
  for (const auto& entry : found) {
    tcp::acceptor door(network);
    failed = listen_on(door, entry.endpoint());
    if (failed) continue;
    door.non_blocking(true);
    return door;
  }
  throw error("[control] rank 0 cannot listen on " + host + ":" + std::to_string(port) + ": " + failed.message());
}

} // namespace penstock::transport
