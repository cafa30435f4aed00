// The data plane over UCX 1.13 active messages; `no_ucx.cpp` stands in where UCX is absent.
#pragma once

#include "transport/endpoint.hpp"

#include <array>
#include <string>
#include <vector>

namespace penstock::transport {

/// What ranks present to each other before a message of theirs is acted on.
using job_token = std::array<std::byte, 16>;

enum class route_choice : std::uint8_t {
  automatic,     ///< shared memory inside a host where all its ranks get some, the network otherwise
  shared_memory, ///< refuses peers on other hosts
  network        ///< TCP (or RDMA) even inside a host
};

struct ucx_options {
  int rank = 0;
  int size = 1;
  int ranks_here = 1; ///< on this host, for messages
  job_token token{};
  route_choice routes = route_choice::automatic;
  std::string devices = "lo"; ///< network devices, comma-separated; UCX_NET_DEVICES wins where it is set
  bool poll = false;          ///< spin instead of sleeping: only for a core of its own
};

/// Opens UCX's two contexts (shared memory without, the network with peer-failure reports; DESIGN section 6), before
/// the other ranks are known.
class ucx_port {
public:
  virtual ~ucx_port() = default;
  /// What every other rank needs to connect; carried to them by the control plane. Holds the host's identity (boot id
  /// and network namespace) too.
  virtual std::string address() const = 0;
  /// `addresses[r]` is rank r's. Starts the network's thread, and makes sure that every peer answers before the
  /// deadline. Throws penstock::error, one line that names the peer.
  virtual std::unique_ptr<endpoint> connect(const std::vector<std::string>& addresses,
                                            std::chrono::milliseconds deadline) = 0;
  /// For the log, known once connected: which ranks share a host but no memory, and why. The same on all ranks.
  virtual std::vector<std::string> remarks() const = 0;
};

/// Throws penstock::error when this build has no UCX or UCX refuses, with its reason.
std::unique_ptr<ucx_port> open_ucx(const ucx_options& options);

bool ucx_available();

} // namespace penstock::transport
