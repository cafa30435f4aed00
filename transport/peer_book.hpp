// What an endpoint has sent to whom, what is still under way, and which peers are lost: the book all endpoints keep.
#pragma once

#include "transport/endpoint.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>

namespace penstock::transport {

/// Parts of one message; more are a mistake, or an attack on the receiver's memory.
inline constexpr std::size_t max_parts = std::size_t{1} << 20;

/// Any thread may call it, except report(), which is for the network's.
class peer_book {
public:
  using time_point = std::chrono::steady_clock::time_point;

  peer_book(int rank, int size);
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(pages_.size()); }

  /// Throws std::logic_error unless `m` may be sent to `peer`.
  void check_sendable(int peer, const message& m) const;

  void posted(int peer);
  /// One that was posted is on its way: `bytes` of header and parts.
  void sent(int peer, std::uint64_t bytes);
  /// One that was posted never will be sent.
  void dropped(int peer, const std::string& why);
  void received(int peer, std::uint64_t bytes);

  /// False when the peer was lost before; only the first reason counts.
  bool lose(int peer, const std::string& what);
  /// Why a peer is lost.
  std::optional<std::string> loss(int peer) const;

  /// Tells the handler of each lost peer it has not heard of.
  void report();
  void on_failure(endpoint::failure_handler handler);

  /// Waits until nothing is under way. Throws penstock::error at the deadline, and when something was dropped.
  void wait_until_sent(time_point deadline) const;
  traffic with(int peer) const;

private:
  struct page {
    traffic counted;
    std::uint64_t under_way = 0;
    std::optional<std::string> loss;
    bool reported = false;
  };
  page& of(int peer);
  const page& of(int peer) const;

  const int rank_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<page> pages_;
  std::string first_drop_;
  endpoint::failure_handler handler_;
};

/// Bytes of a message's header and parts.
std::uint64_t bytes_of(const message& m);

/// The text of an exception, for those who carry it on.
std::string text_of(const std::exception_ptr& e);

} // namespace penstock::transport
