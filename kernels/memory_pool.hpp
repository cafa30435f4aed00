// The host's memory: aligned, recycled, with its live and peak bytes counted by use.
#pragma once

#include "kernels/allocator.hpp"

namespace penstock {

/// Recycles blocks by size: after the first steps a training run allocates nothing. The pool's bookkeeping outlives it
/// until the last buffer is gone. Work on the host ends before its handles are let go, so a block is anybody's at once.
class memory_pool final : public allocator {
public:
  memory_pool();
  ~memory_pool() override;
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;

  buffer allocate(std::size_t bytes, memory_use use) override;
  /// Large blocks that come from the system are zero as they are, and are not touched.
  buffer allocate_zeroed(std::size_t bytes, memory_use use) override;

  memory_usage usage() const override;
  void reset_peak() override;
  void trim() override;

private:
  struct shared_state;
  struct pool_block;
  enum class content : std::uint8_t { any, zero };
  buffer allocate(std::size_t bytes, memory_use use, content wanted);

  std::shared_ptr<shared_state> state_;
};

} // namespace penstock
