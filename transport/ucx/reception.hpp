// The receiving half of a UCX endpoint: active messages become messages again, each part straight into its place.
#pragma once

#include "transport/inbox.hpp"
#include "transport/peer_book.hpp"
#include "transport/ucx/wire.hpp"
#include "transport/ucx/worker.hpp"

#include <atomic>
#include <map>

namespace penstock::transport {

/// Belongs to the network's thread, except refused(). Must outlive the workers that it listens to.
class reception {
public:
  /// Told in the middle of a call of UCX.
  struct listeners {
    std::function<void(int peer, wire_kind greeting)> on_greeting;
    std::function<void(int peer, const std::string& what)> on_failure;
  };

  reception(peer_book& book, inbox& to, const wire_rules& rules, listeners tell);
  ~reception();
  reception(const reception&) = delete;
  reception& operator=(const reception&) = delete;

  void attach(ucx_worker& from);
  /// Gives up the messages that a lost peer has begun. Not in the middle of a call of UCX.
  void forget(int peer);
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

private:
  struct source;
  struct incoming;
  /// Payload as UCX brings it: bytes, or the promise of bytes.
  struct payload {
    ucp_worker_h worker;
    void* data;
    std::size_t bytes;
    bool is_rendezvous;
  };

  ucs_status_t handle(ucp_worker_h worker, std::string_view header, void* data, std::size_t bytes, bool is_rendezvous);
  /// Both return whether UCX's descriptor is kept.
  bool arrive(const wire_header& h, std::string_view user_header, const payload& what);
  bool take_in(incoming& m, std::size_t index, std::size_t offset, const payload& what);
  void announce(incoming& m, std::string user_header);
  void give_up(incoming& m, ucs_status_t why);
  void finish_if_complete(incoming& m);
  void erase(incoming& m);
  static ucs_status_t on_message(void* s, const void* header, std::size_t header_bytes, void* data, std::size_t bytes,
                                 const ucp_am_recv_param_t* how);
  static void on_received(void* request, ucs_status_t status, std::size_t bytes, void* m);

  peer_book& book_;
  inbox& to_;
  const wire_rules rules_;
  const listeners tell_;
  std::vector<std::unique_ptr<source>> sources_;
  std::map<std::pair<int, std::uint64_t>, std::unique_ptr<incoming>> begun_; // by sender and its count
  memory_pool early_;                                                        // for parts that overtake their header
  std::atomic<std::uint64_t> refused_{0};
};

} // namespace penstock::transport
