// Measures what a message to another rank costs.
#pragma once

#include "transport/endpoint.hpp"

namespace penstock::transport {

struct measured_link {
  double latency_s = 0;             ///< of a small message, one way: half a round trip, median
  double bandwidth_bytes_per_s = 0; ///< of messages large enough that the latency does not count, median
};

/// Answers the probes of others as long as it lives, and probes them. Every rank of the job has one while any probes.
class link_probe {
public:
  /// `base` and the next channel are for this object alone.
  link_probe(endpoint& data, channel base);
  ~link_probe();
  link_probe(const link_probe&) = delete;
  link_probe& operator=(const link_probe&) = delete;

  /// Blocks. Throws penstock::error when the peer does not answer within the deadline.
  measured_link measure(int peer, std::chrono::milliseconds deadline);

private:
  class echo;
  class answers;
  double round_trip(int peer, const part& payload, std::chrono::steady_clock::time_point until);

  endpoint& data_;
  channel requests_;
  channel replies_;
  memory_pool pool_;
  std::shared_ptr<answers> answers_;
};

} // namespace penstock::transport
