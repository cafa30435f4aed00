// Those who come to a job's port without belonging to it, and servers that pretend to be rank 0.
#pragma once

#include "transport/control/secret.hpp"

#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace penstock::transport::test {

/// A TCP connection to a port of 127.0.0.1 that says whatever it likes. Throws std::runtime_error when refused.
class stranger {
public:
  explicit stranger(int port);
  ~stranger();
  stranger(const stranger&) = delete;
  stranger& operator=(const stranger&) = delete;

  void say(const std::string& bytes);                     ///< as far as the other side listens
  bool is_closed_within(std::chrono::milliseconds bound); ///< by the other side, whatever it says before
  void reset();                                           ///< hangs up without good manners

private:
  int socket_ = -1;
};

/// A client's handshake of exactly that version, with the secret or with a certificate of its own. "": it succeeded.
std::string tls_handshake(int port, int version, const std::optional<job_secret>& secret);

/// Proves the secret, says these bytes, and returns the text of the frame that comes back; "" when the door closes.
std::string answer_to(int port, const job_secret& secret, const std::string& bytes);

/// A server on 127.0.0.1 with one visitor.
class false_rank_0 {
public:
  enum kind { certificate, http, other_secret, silent };
  explicit false_rank_0(kind what);
  ~false_rank_0();
  false_rank_0(const false_rank_0&) = delete;
  false_rank_0& operator=(const false_rank_0&) = delete;

  int port() const;
  bool was_trusted() const; ///< it received anything after a handshake. After the visit.

private:
  struct state;
  std::unique_ptr<state> self_;
};

} // namespace penstock::transport::test
