// Reference-counted, aligned, recycled memory of one device, with its live and peak bytes counted by use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock {

/// What memory is for; each use is counted apart.
enum class memory_use : std::uint8_t { weights, gradients, optimizer_state, activations, scratch };
inline constexpr std::size_t memory_use_count = 5;

/// Bytes as requested (not rounded up to the blocks that hold them).
struct memory_usage {
  std::array<std::int64_t, memory_use_count> live_bytes{};
  std::array<std::int64_t, memory_use_count> peak_bytes{};
  std::int64_t total_live_bytes = 0;
  std::int64_t total_peak_bytes = 0;
  std::int64_t reserved_bytes = 0; ///< taken from the system: live and waiting for reuse

  std::int64_t live(memory_use use) const { return live_bytes[static_cast<std::size_t>(use)]; }
  std::int64_t peak(memory_use use) const { return peak_bytes[static_cast<std::size_t>(use)]; }
};

/// A handle on a block of memory; copies share it, and the last one gives it back to its pool. Handles may be copied
/// and dropped on any thread; what the bytes mean, and who may write them, is the owner's business.
class buffer {
public:
  buffer() = default;
  std::byte* data() const;
  std::size_t size() const;
  explicit operator bool() const { return block_ != nullptr; }
  /// Number of handles. Only 1 is a stable answer: then nobody else can make another.
  long use_count() const { return block_.use_count(); }
  const void* identity() const { return block_.get(); }

private:
  friend class memory_pool;
  struct block;
  explicit buffer(std::shared_ptr<block> b) : block_(std::move(b)) {}
  std::shared_ptr<block> block_;
};

/// Recycles blocks by size: after the first steps a training run allocates nothing. Thread safe. Blocks are aligned to
/// 64 bytes. The pool's bookkeeping outlives it until the last buffer is gone.
class memory_pool {
public:
  memory_pool();
  ~memory_pool();
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;

  /// Uninitialised bytes; zero bytes give a valid handle. Throws penstock::error when the system has none left.
  buffer allocate(std::size_t bytes, memory_use use);
  /// The same, all zero. Large blocks that come from the system are zero as they are, and are not touched.
  buffer allocate_zeroed(std::size_t bytes, memory_use use);

  memory_usage usage() const;
  /// Makes the present live bytes the peak, to measure what follows.
  void reset_peak();
  /// Gives blocks that nobody uses back to the system.
  void trim();

private:
  friend class buffer;
  struct shared_state;
  enum class content : std::uint8_t { any, zero };
  buffer allocate(std::size_t bytes, memory_use use, content wanted);

  std::shared_ptr<shared_state> state_;
};

} // namespace penstock
