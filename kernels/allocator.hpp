// Memory of a device, as all devices give it: reference-counted blocks, counted by use.
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

/// One block. Whoever makes it takes it back in the destructor, on any thread.
class memory_block {
public:
  memory_block(std::byte* data, std::size_t size, bool is_on_host = true)
      : data_(data), size_(size), is_on_host_(is_on_host) {}
  virtual ~memory_block() = default;
  memory_block(const memory_block&) = delete;
  memory_block& operator=(const memory_block&) = delete;
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool is_on_host() const { return is_on_host_; } ///< the host may read and write there

private:
  std::byte* data_;
  std::size_t size_;
  bool is_on_host_;
};

/// A handle on a block of memory; copies share it, and the last one gives it back to its allocator. Handles may be
/// copied and dropped on any thread; what the bytes mean, and who may write them, is the owner's business. The address
/// is the device's; the host may look there only where is_on_host().
class buffer {
public:
  buffer() = default;
  explicit buffer(std::shared_ptr<memory_block> block) : block_(std::move(block)) {}
  std::byte* data() const { return block_ ? block_->data() : nullptr; }
  std::size_t size() const { return block_ ? block_->size() : 0; }
  explicit operator bool() const { return block_ != nullptr; }
  bool is_on_host() const { return !block_ || block_->is_on_host(); }
  /// Number of handles. Only 1 is a stable answer: then nobody else can make another.
  long use_count() const { return block_.use_count(); }
  const void* identity() const { return block_.get(); }

private:
  std::shared_ptr<memory_block> block_;
};

/// Memory of one device, or of the host. A block that is let go may be reused by later work of the stream that it
/// belongs to at once, by anybody else only when what read it is done. Thread safe. Blocks are aligned to 64 bytes and
/// may outlive their allocator.
class allocator {
public:
  virtual ~allocator() = default;
  /// Uninitialised bytes; zero bytes give a valid handle. Throws penstock::error when there are none left.
  virtual buffer allocate(std::size_t bytes, memory_use use) = 0;
  /// The same, all zero.
  virtual buffer allocate_zeroed(std::size_t bytes, memory_use use) = 0;

  virtual memory_usage usage() const = 0;
  /// Makes the present live bytes the peak, to measure what follows.
  virtual void reset_peak() = 0;
  /// Gives blocks that nobody uses back to the system.
  virtual void trim() = 0;
};

} // namespace penstock
