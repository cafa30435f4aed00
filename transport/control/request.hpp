// What is asked of a running process, and the asking.
#pragma once

#include "transport/control/secret.hpp"
#include "transport/launch/launch.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace penstock::transport {

inline constexpr std::size_t most_request_bytes = std::size_t{16} << 20;

/// The greeting of who comes with a request; a rank says another.
inline constexpr std::string_view request_greeting = "penstock request 1";

struct request {
  std::string topic; ///< "replan"; at most 255 bytes
  std::string body;  ///< at most most_request_bytes
};

struct request_answer {
  bool is_granted = false;
  std::string line; ///< for people: what was done, or why it was refused
};

struct asking_options {
  std::chrono::milliseconds reach = std::chrono::seconds(10);    ///< until the port is reached and the secret proved
  std::chrono::milliseconds silence = std::chrono::seconds(15);  ///< without a word from a port that has the request
  std::chrono::milliseconds patience = std::chrono::minutes(10); ///< until the answer
  std::function<void(const std::string&)> on_news; ///< what the process is doing while it has not answered
};

/// Asks the port at where.master and where.port, and waits for the answer. Throws usage_error for a request that is too
/// large, error, one line, when the port is not there, knows another secret, goes away, falls silent or takes too long.
request_answer ask(const launch& where, const job_secret& secret, const request& what, const asking_options& options);

} // namespace penstock::transport
