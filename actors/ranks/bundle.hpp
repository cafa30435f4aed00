// Named tensors and a text, from one rank to another between drains.
#pragma once

#include "actors/ranks/job.hpp"
#include "kernels/safetensors.hpp"
#include "transport/collectives.hpp"

namespace penstock::actors {

struct bundle {
  std::string text;      ///< its meaning is the users' own
  named_tensors tensors; ///< in whatever layout; one that is not plain arrives under a wire_format of its name
};

/// Blocking transfers of bundles; every rank takes its part in the same order. Throws penstock::error when the other
/// side does not come within the job's patience, and for what is no bundle.
class bundle_transfers {
public:
  explicit bundle_transfers(const job& ranks);
  /// On channels of its own, `base` and as many behind it as there are ranks.
  bundle_transfers(const job& ranks, transport::channel base);
  void send(int to, const bundle& b);
  /// Tensors come from `pool`.
  bundle receive(int from, memory_pool& pool);
  /// Whoever waits gets that error: the job is over. Any thread.
  void cancel(const std::string& why) { transfers_.cancel(why); }

private:
  const job& job_;
  transport::transfers transfers_;
};

} // namespace penstock::actors
