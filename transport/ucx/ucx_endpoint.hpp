// One rank's connections over UCX: shared memory to some peers, the network to others, one thread for both.
#pragma once

#include "transport/ucx/network_loop.hpp"
#include "transport/ucx/reception.hpp"
#include "transport/ucx/sending.hpp"

namespace penstock::transport {

/// How to reach a peer: the worker on this side, and the address of the one on the other.
struct ucx_path {
  ucx_worker* through = nullptr; ///< null: the rank itself
  std::string address;
};

class ucx_endpoint final : public endpoint {
public:
  /// Starts the network's thread. `paths`: by rank. Throws penstock::error with UCX's reason.
  ucx_endpoint(const ucx_options& options, std::vector<std::unique_ptr<ucx_worker>> workers,
               const std::vector<ucx_path>& paths);
  ~ucx_endpoint() override;

  /// Makes sure that each peer answers; connections are made only when first used, and slowly. Throws penstock::error
  /// that names the first one that does not.
  void greet_all(std::chrono::milliseconds deadline);

  int rank() const override { return book_.rank(); }
  int size() const override { return book_.size(); }
  void send(int peer, channel to, message m, completion sent) override;
  void listen(channel from, std::shared_ptr<receiver> taker) override;
  void on_failure(failure_handler handler) override;
  void flush(std::chrono::milliseconds deadline) override;
  traffic traffic_with(int peer) const override { return book_.with(peer); }
  std::string route_to(int peer) const override;
  std::uint64_t refused() const override { return reception_.refused(); }

private:
  /// The connection to one peer.
  struct line {
    ucx_endpoint& owner;
    int peer;
    ucp_ep_h connection = nullptr; // null once closed
    ucx_kind kind{};
    std::string route; // guarded by the endpoint's mutex, as the next
    bool has_answered = false;
  };

  void connect(int peer, const ucx_path& path);
  void greeted(int peer, wire_kind greeting);
  void lose_soon(int peer, const std::string& what);
  void lose(int peer, const std::string& what);
  void close(line& l);
  void shut_down();

  peer_book book_;
  inbox inbox_;
  sending sending_;
  reception reception_;
  std::vector<std::unique_ptr<line>> lines_; // by rank; null for the rank itself
  std::size_t closing_ = 0;                  // connections, on the network's thread
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::vector<std::unique_ptr<ucx_worker>> workers_;
  std::unique_ptr<network_loop> loop_;
};

} // namespace penstock::transport
