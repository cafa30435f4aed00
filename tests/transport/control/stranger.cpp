// Clients and servers that misbehave, over Asio and OpenSSL.
#include "tests/transport/control/stranger.hpp"

#include "kernels/check.hpp"
#include "transport/control/frame.hpp"
#include "transport/control/tls.hpp"

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <arpa/inet.h>
#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace penstock::transport::test {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using clock = std::chrono::steady_clock;

namespace {

// Without a credential it is a client like any browser. A server needs a certificate, made here by itself.
asio::ssl::context ordinary_tls(int version) {
  asio::ssl::context context(asio::ssl::context::tls);
  SSL_CTX_set_min_proto_version(context.native_handle(), version);
  SSL_CTX_set_max_proto_version(context.native_handle(), version);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> own(X509_new(), &X509_free);
  X509_gmtime_adj(X509_getm_notBefore(own.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(own.get()), 3600);
  X509_set_pubkey(own.get(), key.get());
  X509_sign(own.get(), key.get(), EVP_sha256());
  SSL_CTX_use_certificate(context.native_handle(), own.get());
  SSL_CTX_use_PrivateKey(context.native_handle(), key.get());
  return context;
}

tcp::endpoint loopback(int port) {
  return {asio::ip::address_v4::loopback(), static_cast<unsigned short>(port)};
}

} // namespace

stranger::stranger(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const auto to = loopback(port);
  if (::connect(socket_, to.data(), static_cast<socklen_t>(to.size())) != 0)
    throw std::runtime_error("port " + std::to_string(port) + " is not open");
}

stranger::~stranger() {
  ::close(socket_);
}

void stranger::say(const std::string& bytes) {
  [[maybe_unused]] const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool stranger::is_closed_within(std::chrono::milliseconds bound) {
  const auto end = clock::now() + bound;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
    pollfd look{socket_, POLLIN, 0};
    if (left <= 0 || ::poll(&look, 1, static_cast<int>(left)) <= 0) return false;
    char bytes[512];
    if (::recv(socket_, bytes, sizeof bytes, 0) <= 0) return true;
  }
}

void stranger::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::shutdown(socket_, SHUT_RDWR);
}

std::string tls_handshake(int port, int version, const std::optional<job_secret>& secret) {
  asio::io_context network;
  auto context = secret ? make_tls_context(*secret, tls_side::client) : ordinary_tls(version);
  tls_stream stream(network, context);
  stream.next_layer().connect(loopback(port));
  error_code failed;
  stream.handshake(tls_stream::client, failed);
  return failed ? failed.message() : "";
}

std::string answer_to(int port, const job_secret& secret, const std::string& bytes) {
  asio::io_context network;
  auto context = make_tls_context(secret, tls_side::client);
  tls_stream stream(network, context);
  stream.next_layer().connect(loopback(port));
  stream.handshake(tls_stream::client);
  asio::write(stream, asio::buffer(bytes));
  std::string text;
  frame_reader reader({frame_kind::admitted, frame_kind::refused});
  std::vector<char> space(4096);
  error_code failed;
  while (text.empty()) {
    const auto n = stream.read_some(asio::buffer(space), failed);
    if (failed) break;
    reader.feed({space.data(), n}, [&](const frame& f) { text = f.payload; });
  }
  return text;
}

struct false_rank_0::state {
  explicit state(kind what) : kind_of(what) {}
  kind kind_of;
  asio::io_context network;
  tcp::acceptor door{network, loopback(0)};
  std::atomic<bool> trusted{false};
  std::thread thread;

  void serve() {
    error_code failed;
    tcp::socket visitor(network);
    door.accept(visitor, failed);
    if (failed) return;
    if (kind_of == http) {
      asio::write(visitor, asio::buffer(std::string("HTTP/1.1 400 Bad Request\r\n\r\n")), failed);
    } else if (kind_of != silent) {
      auto context = kind_of == certificate ? ordinary_tls(TLS1_3_VERSION)
                                            : make_tls_context(secret_from_text("another secret"), tls_side::server);
      tls_stream stream(std::move(visitor), context);
      stream.handshake(tls_stream::server, failed);
      char byte = 0;
      if (!failed) stream.read_some(asio::buffer(&byte, 1), failed);
      trusted = !failed;
      return;
    }
    char byte = 0; // until the visitor goes
    while (!failed)
      visitor.read_some(asio::buffer(&byte, 1), failed);
  }
};

false_rank_0::false_rank_0(kind what) : self_(std::make_unique<state>(what)) {
  self_->thread = std::thread([self = self_.get()] { self->serve(); });
}

false_rank_0::~false_rank_0() {
  self_->thread.join();
}

int false_rank_0::port() const {
  return self_->door.local_endpoint().port();
}

bool false_rank_0::was_trusted() const {
  return self_->trusted;
}

} // namespace penstock::transport::test
