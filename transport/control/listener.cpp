// Accepts visitors and gives each of them little: a place among few, a little time, one small frame.
#include "transport/control/listener.hpp"

#include "transport/control/door.hpp"
#include "transport/control/words.hpp"

#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::transport {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int accepted_at_once = 16; // so that a flood leaves time for the ranks
constexpr auto pause_when_full = std::chrono::milliseconds(100);

} // namespace

struct listener::visitor {
  visitor(std::uint64_t n, std::shared_ptr<link> l, asio::io_context& network, std::chrono::milliseconds patience)
      : number(n), line(std::move(l)), timer(network, patience) {}
  std::uint64_t number;
  std::shared_ptr<link> line;
  asio::steady_timer timer;
  bool answered = false;
};

listener::listener(asio::io_context& network, tcp::acceptor door, asio::ssl::context& tls,
                   std::chrono::milliseconds patience, greeter greet, reporter report)
    : network_(network), door_(std::move(door)), pause_(network), tls_(tls), patience_(patience),
      greet_(std::move(greet)), report_(std::move(report)) {}

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
  const auto v = std::make_shared<visitor>(next_number_++, std::move(line), network_, patience_);
  visitors_.emplace(v->number, v);
  v->timer.async_wait([this, v](const error_code& failed) {
    if (!failed) turn_away(v, "it has not said who it is within " + text_of(patience_));
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

} // namespace penstock::transport
