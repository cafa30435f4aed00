// UCX's handles: a context with its one worker, opened for shared memory or for the network.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <ucp/api/ucp.h>

namespace penstock::transport {

/// Which of the two contexts (DESIGN section 6).
enum class ucx_kind {
  shared_memory, ///< inside a host; the death of a peer goes unnoticed
  network        ///< peer failures are reported
};

/// Throws penstock::error "[ucx] cannot WHAT: REASON" unless all is well.
void check_ucx(ucs_status_t status, const std::string& what);

/// One context and worker. After construction it belongs to the network's thread.
class ucx_worker {
public:
  /// Whether the environment's UCX_TLS leaves room for this kind; always so where it is not set.
  static bool is_allowed(ucx_kind kind);

  /// `devices`: network devices, where UCX_NET_DEVICES does not name them. Throws penstock::error with UCX's reason.
  ucx_worker(ucx_kind kind, const std::string& devices);

  ucx_kind kind() const { return kind_; }
  ucp_worker_h handle() const { return worker_.get(); }
  /// What another worker of this kind needs to connect.
  std::string address() const;
  /// Longest header of an active message.
  std::size_t max_header() const;
  /// Becomes readable when an armed worker has something to do. Belongs to UCX.
  int event_descriptor() const;
  /// False when there is more to do first.
  bool arm();

  /// Connects to a worker of the same kind, `whom` for messages. `on_error` hears of the peer's loss, on the thread
  /// that makes progress. The connection lasts as long as the worker.
  ucp_ep_h connect(std::string_view address, const std::string& whom, ucp_err_handler_t on_error);

private:
  struct destroy {
    void operator()(ucp_context_h c) const { ucp_cleanup(c); }
    void operator()(ucp_worker_h w) const { ucp_worker_destroy(w); }
  };
  ucx_kind kind_;
  std::unique_ptr<ucp_context, destroy> context_;
  std::unique_ptr<ucp_worker, destroy> worker_;
};

/// How UCX says it connects: "shared memory (posix, cma)", "tcp over lo".
std::string route_of(ucp_ep_h connection, ucx_kind kind);

/// In what pieces large parts should travel on a connection through the network; 0: whole, as UCX chooses.
std::size_t piece_bytes_of(ucp_ep_h connection);

} // namespace penstock::transport
