// Opens UCX, and chooses how to reach each rank.
#include "kernels/check.hpp"
#include "transport/ucx/address.hpp"
#include "transport/ucx/shared_memory.hpp"
#include "transport/ucx/ucx_endpoint.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace penstock::transport {

namespace {

class port final : public ucx_port {
public:
  explicit port(const ucx_options& options) : options_(options) {
    check(options.rank >= 0 && options.rank < options.size, "a rank is less than the number of ranks");
    own_.host = host_identity();
    if (options.routes != route_choice::network) open_shared_memory();
    if (options.routes != route_choice::shared_memory) own_.network = open(ucx_kind::network);
    if (workers_.empty() && own_.trouble.empty())
      throw error("[ucx] UCX_TLS=" + std::string(std::getenv("UCX_TLS")) + " leaves no transport of the wanted kind");
  }

  std::string address() const override { return packed(own_); }

  std::unique_ptr<endpoint> connect(const std::vector<std::string>& addresses,
                                    std::chrono::milliseconds deadline) override {
    check(!std::exchange(is_used_, true), "a port connects once");
    check(addresses.size() == static_cast<std::size_t>(options_.size), "one address for each rank");
    std::vector<ucx_address> all;
    for (int peer = 0; peer < options_.size; ++peer)
      all.push_back(unpacked(addresses[static_cast<std::size_t>(peer)], peer));
    leave_scarce_memory(all);
    std::vector<ucx_path> paths(addresses.size());
    for (int peer = 0; peer < options_.size; ++peer) {
      const auto i = static_cast<std::size_t>(peer);
      if (peer != options_.rank) paths[i] = path_to(peer, std::move(all[i]));
    }
    // One that no path leads through would only cost time, and listen.
    std::vector<std::unique_ptr<ucx_worker>> used;
    for (auto& w : std::exchange(workers_, {})) {
      if (std::any_of(paths.begin(), paths.end(), [&w](const ucx_path& p) { return p.through == w.get(); }))
        used.push_back(std::move(w));
    }
    auto connected = std::make_unique<ucx_endpoint>(options_, std::move(used), paths);
    connected->greet_all(deadline);
    return connected;
  }

  std::vector<std::string> remarks() const override { return remarks_; }

private:
  // UCX writes to all that it takes at once, so what is open will not fail for want of memory later.
  void open_shared_memory() {
    try {
      own_.shared_memory = open(ucx_kind::shared_memory);
    } catch (const error& e) {
      own_.trouble = shared_memory_trouble(options_.ranks_here, e.what());
      if (options_.routes == route_choice::shared_memory)
        throw error("[ucx] no shared memory: " + own_.trouble + "; --transport tcp needs none");
    }
  }

  // Where one of a host's ranks has got none, none of them uses any: what is left would not last. All ranks see the
  // same addresses, so all take the same decision.
  void leave_scarce_memory(std::vector<ucx_address>& all) {
    std::map<std::string, std::string> troubled; // hosts, and why
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].trouble.empty() || troubled.contains(all[rank].host)) continue;
      troubled[all[rank].host] = all[rank].trouble;
      remarks_.push_back("the ranks of rank " + std::to_string(rank) +
                         "'s host reach each other over the network, for want of shared memory: " + all[rank].trouble);
    }
    for (auto& a : all)
      if (troubled.contains(a.host)) a.shared_memory.clear();
    if (troubled.contains(own_.host))
      std::erase_if(workers_, [](const auto& w) { return w->kind() == ucx_kind::shared_memory; });
  }

  /// The address of a new worker; empty where the user does not want one.
  std::string open(ucx_kind kind) {
    if (!ucx_worker::is_allowed(kind)) return {};
    workers_.push_back(std::make_unique<ucx_worker>(kind, options_.devices));
    return workers_.back()->address();
  }

  ucx_worker* worker(ucx_kind kind) const {
    for (const auto& w : workers_) {
      if (w->kind() == kind) return w.get();
    }
    return nullptr;
  }

  ucx_path path_to(int peer, ucx_address to) const {
    const bool is_near = to.host == own_.host;
    ucx_worker* near = worker(ucx_kind::shared_memory);
    ucx_worker* far = worker(ucx_kind::network);
    if (is_near && near != nullptr && !to.shared_memory.empty()) return {near, std::move(to.shared_memory)};
    const std::string who =
        "[ucx] rank " + std::to_string(peer) + (is_near ? "" : " is on another host, and") + " cannot be reached: ";
    if (far == nullptr || to.network.empty()) throw error(who + "one of us has no network");
    if (!is_near && options_.devices == "lo" && std::getenv("UCX_NET_DEVICES") == nullptr)
      throw error(who + "this rank's only network device is lo");
    return {far, std::move(to.network)};
  }

  const ucx_options options_;
  ucx_address own_;
  bool is_used_ = false;
  std::vector<std::string> remarks_;
  std::vector<std::unique_ptr<ucx_worker>> workers_;
};

} // namespace

std::unique_ptr<ucx_port> open_ucx(const ucx_options& options) {
  return std::make_unique<port>(options);
}

bool ucx_available() {
  return true;
}

} // namespace penstock::transport
