// Who takes which channel of an endpoint, and the messages that nobody takes yet: the receiving half all endpoints
// share.
#pragma once

#include "transport/endpoint.hpp"

#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace penstock::transport {

/// A message on its way in. Its receiver is chosen when it is announced.
struct arrival {
  int peer = -1;
  channel to{};
  message content;
  std::shared_ptr<receiver> taker; ///< null: nobody listens, its parts come from the inbox's own pool
};

/// The receivers by channel. Only listen() may be called from any thread, the rest belongs to the network's. No lock is
/// held while a receiver is called, so receivers may call the endpoint. What they throw passes through.
class inbox {
public:
  void listen(channel from, std::shared_ptr<receiver> taker);

  arrival announce(int peer, channel to, std::string header, std::size_t parts) const;
  /// Where part `index` goes, now also in the message. Throws penstock::error when the receiver gives another size.
  const part& place(arrival& a, std::size_t index, std::size_t bytes);
  /// All parts are there: hands the message to its receiver, or holds it while nobody listens.
  void complete(arrival a);

  /// Takes out the oldest message held for the channel, when somebody listens to it.
  std::optional<arrival> next_held(channel to);
  /// Gives a held message to whoever listens now, in parts of theirs.
  void hand_over(arrival held);

private:
  std::shared_ptr<receiver> taker_of(channel to) const;

  mutable std::mutex mutex_; // takers_
  std::unordered_map<channel, std::shared_ptr<receiver>> takers_;
  std::unordered_map<channel, std::deque<arrival>> held_;
  memory_pool pool_;
};

} // namespace penstock::transport
