// What all delayed devices of this process were asked for.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::testing {

struct delayed_counters {
  std::atomic<std::int64_t> works{0};       ///< posted and finished
  std::atomic<std::int64_t> ops{0};         ///< asked for: operations, copies and fills
  std::atomic<std::int64_t> fetches{0};     ///< of scalars: each is a synchronisation
  std::atomic<std::int64_t> host_copies{0}; ///< of whole tensors to the host
  std::atomic<std::int64_t> host_waits{0};  ///< for a stream to come to its end

  void reset() { works = ops = fetches = host_copies = host_waits = 0; }
};

inline delayed_counters& counted() {
  static delayed_counters all;
  return all;
}

} // namespace penstock::testing
