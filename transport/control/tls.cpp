// A pre-shared key in OpenSSL's terms: a session of TLS 1.3 that both sides have "met before".
#include "transport/control/tls.hpp"

#include "kernels/check.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/error.hpp>
#include <memory>
#include <string_view>

namespace penstock::transport {

namespace {

namespace asio = boost::asio;

constexpr const char* cipher_suite = "TLS_AES_128_GCM_SHA256";
constexpr std::string_view identity = "penstock job"; // which key it is; there is one only

void free_session(void*, void* session, CRYPTO_EX_DATA*, int, long, void*) {
  SSL_SESSION_free(static_cast<SSL_SESSION*>(session));
}

// The key's place in a context. (The context's "app data" is Asio's own.)
int key_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_session);
  return index;
}

SSL_SESSION* key_of(SSL* connection) {
  auto* session = static_cast<SSL_SESSION*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), key_index()));
  return session != nullptr && SSL_SESSION_up_ref(session) == 1 ? session : nullptr;
}

int offer_key(SSL* connection, const EVP_MD* digest, const unsigned char** name, std::size_t* name_size,
              SSL_SESSION** session) {
  *session = nullptr;
  // After a retry request the suite is known; it must be the one the key is for.
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
  *session = key_of(connection);
  *name = reinterpret_cast<const unsigned char*>(identity.data());
  *name_size = identity.size();
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* connection, const unsigned char* name, std::size_t name_size, SSL_SESSION** session) {
  *session = nullptr;
  if (std::string_view(reinterpret_cast<const char*>(name), name_size) != identity) return 1; // unknown
  *session = key_of(connection);
  return *session != nullptr ? 1 : 0;
}

const SSL_CIPHER* the_cipher(SSL_CTX* context) {
  STACK_OF(SSL_CIPHER)* all = SSL_CTX_get_ciphers(context);
  for (int i = 0; i < sk_SSL_CIPHER_num(all); ++i) {
    const SSL_CIPHER* c = sk_SSL_CIPHER_value(all, i);
    if (std::string_view(SSL_CIPHER_get_name(c)) == cipher_suite) return c;
  }
  return nullptr;
}

void put_key(SSL_CTX* context, const job_secret& secret) {
  const auto key = secret.token("control plane");
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
  const std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)> session(SSL_SESSION_new(), &SSL_SESSION_free);
  const SSL_CIPHER* cipher = the_cipher(context);
  check(session && cipher != nullptr && SSL_SESSION_set1_master_key(session.get(), bytes, key.size()) == 1 &&
            SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
            SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1 &&
            SSL_SESSION_up_ref(session.get()) == 1,
        "OpenSSL takes no pre-shared key");
  if (SSL_CTX_set_ex_data(context, key_index(), session.get()) != 1) {
    SSL_SESSION_free(session.get());
    check(false, "OpenSSL keeps no pre-shared key");
  }
}

bool is_ssl_reason(const boost::system::error_code& failed, std::initializer_list<int> reasons) {
  if (failed.category() != asio::error::get_ssl_category()) return false;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(failed.value()));
  for (const int r : reasons) {
    if (r == reason) return true;
  }
  return false;
}

} // namespace

asio::ssl::context make_tls_context(const job_secret& secret, tls_side side) {
  asio::ssl::context context(side == tls_side::client ? asio::ssl::context::tls_client
                                                      : asio::ssl::context::tls_server);
  SSL_CTX* native = context.native_handle();
  if (SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(native, TLS1_3_VERSION) != 1 || SSL_CTX_set_ciphersuites(native, cipher_suite) != 1)
    throw error(std::string("[control] this OpenSSL has no TLS 1.3 with ") + cipher_suite);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(native, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(native, 0);
  put_key(native, secret);
  if (side == tls_side::client) {
    // A server that shows a certificate instead has proved nothing: there is none that we trust.
    context.set_verify_mode(asio::ssl::verify_peer);
    SSL_CTX_set_psk_use_session_callback(native, offer_key);
  } else {
    SSL_CTX_set_psk_find_session_callback(native, find_key);
  }
  return context;
}

bool is_proved(tls_stream& after_handshake) {
  return SSL_session_reused(after_handshake.native_handle()) == 1;
}

handshake_fault fault_of(const boost::system::error_code& failed) {
  // What the server finds, and the alerts by which the client is told.
  if (is_ssl_reason(
          failed, {SSL_R_BINDER_DOES_NOT_VERIFY, SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, SSL_R_TLSV1_ALERT_DECRYPT_ERROR}))
    return handshake_fault::secret;
  if (failed.category() == asio::error::get_ssl_category()) return handshake_fault::alien;
  return handshake_fault::ended;
}

std::string text_of(const boost::system::error_code& failed) {
  if (failed == asio::error::eof || failed == asio::ssl::error::stream_truncated) return "the connection was closed";
  if (is_ssl_reason(failed, {SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST})) return "it does not speak TLS";
  if (fault_of(failed) == handshake_fault::secret) return "the job's secret differs";
  if (failed.category() == asio::error::get_ssl_category())
    return "no TLS 1.3 with the job's secret: " + failed.message();
  return failed.message();
}

} // namespace penstock::transport
