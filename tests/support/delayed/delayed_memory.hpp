// Memory of a delayed device: unreadable for the host, reused at once in the stream's order, poisoned in between.
#pragma once

#include "kernels/allocator.hpp"
#include "kernels/tensor.hpp"

namespace penstock::testing {

class device_queue;

/// A block that is let go goes to the next who asks, and the stream it belongs to overwrites it in between: work that
/// was asked for before still sees its bytes, on that stream; who reads them on another one, or later, sees NaN.
class delayed_memory final : public allocator {
public:
  delayed_memory();
  ~delayed_memory() override;
  delayed_memory(const delayed_memory&) = delete;
  delayed_memory& operator=(const delayed_memory&) = delete;

  buffer allocate(std::size_t bytes, memory_use use) override;
  buffer allocate_zeroed(std::size_t bytes, memory_use use) override;
  memory_usage usage() const override;
  void reset_peak() override;
  void trim() override;

  /// From now on in that stream's order; until there is one, and when it is gone, at once. Throws usage_error while
  /// another one lives: a device has one stream.
  void belong_to(const std::shared_ptr<device_queue>& stream);
  bool holds(const tensor& x) const;

  /// The same tensor where its bytes are, for the device's thread; without a share in the block. None for none. Throws
  /// std::logic_error for a tensor of the host.
  static tensor bytes_of(const tensor& x);

private:
  struct shared_state;
  struct block;
  std::shared_ptr<shared_state> state_; // shared with the blocks
};

/// What memory holds that nobody may read: NaN as f32, f64 and bf16, -1 as integers.
void poison(std::byte* bytes, std::size_t count);

} // namespace penstock::testing
