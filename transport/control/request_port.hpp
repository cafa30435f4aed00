// A door of a running process where whoever knows the job's secret may ask it for something.
#pragma once

#include "transport/control/request.hpp"
#include "transport/control/secret.hpp"
#include "transport/launch/launch.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace penstock::transport {

struct request_port_options {
  job_secret secret;
  /// What a visitor has to prove the secret and to ask; what one that was answered has to leave.
  std::chrono::milliseconds patience = std::chrono::seconds(15);
  std::chrono::milliseconds pulse = std::chrono::seconds(1); ///< how often who waits hears that it still waits
  std::function<std::string()> news; ///< what the process is doing, told with it; on the port's thread; may be empty
  std::function<void(const std::string&)> log; ///< strangers that were turned away; on the port's thread; may be empty
};

/// Takes one request at a time: while one has no answer, others are refused with a line that says so. A request stands
/// when who made it is gone. Strangers are turned away as at rank 0's door.
class request_port {
public:
  /// Any thread; the first call counts, those after the port's end are dropped.
  using responder = std::function<void(const request_answer&)>;
  /// Called on the port's thread, which must not be held up for long. What it throws refuses the request.
  using handler = std::function<void(const request&, responder)>;

  /// Listens at once: where.port 0 is any free one. Throws error, one line, where that cannot be.
  request_port(const launch& where, request_port_options options, handler handle);
  /// Who still waits is told that the run has ended. Takes a second at most. Not on the port's thread.
  ~request_port();
  request_port(const request_port&) = delete;
  request_port& operator=(const request_port&) = delete;

  std::string address() const; ///< "127.0.0.1:7001"

private:
  class desk;
  std::shared_ptr<desk> desk_; ///< responders may outlive the port
};

} // namespace penstock::transport
