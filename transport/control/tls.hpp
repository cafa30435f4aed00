// TLS 1.3 whose only credential is the job's secret, as Asio wants it.
#pragma once

#include "transport/control/secret.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <string>
#include <utility> // Boost 1.74's Asio needs it first

namespace penstock::transport {

using tls_stream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;

enum class tls_side { client, server };

/// No certificates, no tickets, one cipher suite: whoever completes a handshake has proved to know the secret, which
/// is_proved() confirms. Throws error when OpenSSL lacks what that needs.
boost::asio::ssl::context make_tls_context(const job_secret& secret, tls_side side);
bool is_proved(tls_stream& after_handshake);

/// Why a handshake failed.
enum class handshake_fault {
  secret, ///< the other side knows another secret
  ended,  ///< the connection ended, which may have any reason
  alien   ///< the other side does not speak what we speak
};
handshake_fault fault_of(const boost::system::error_code& failed);

/// A few words for a log line.
std::string text_of(const boost::system::error_code& failed);

} // namespace penstock::transport
