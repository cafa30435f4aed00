// Blocks from an arena, by size, the one that was let go last first; counted as the host's pool counts.
#include "tests/support/delayed/delayed_memory.hpp"

#include "kernels/check.hpp"
#include "tests/support/delayed/arena.hpp"
#include "tests/support/delayed/device_queue.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace penstock::testing {

void poison(std::byte* bytes, std::size_t count) {
  std::memset(bytes, 0xff, count);
}

struct delayed_memory::shared_state {
  arena room;
  mutable std::mutex mutex;
  std::size_t taken = 0;                                    // bytes of the arena that were ever handed out
  std::map<std::size_t, std::vector<std::byte*>> available; // by size
  memory_usage counted;
  std::weak_ptr<device_queue> stream;

  void count(memory_use use, std::int64_t bytes) {
    const auto i = static_cast<std::size_t>(use);
    counted.live_bytes[i] += bytes;
    counted.total_live_bytes += bytes;
    counted.peak_bytes[i] = std::max(counted.peak_bytes[i], counted.live_bytes[i]);
    counted.total_peak_bytes = std::max(counted.total_peak_bytes, counted.total_live_bytes);
  }

  std::byte* take(std::size_t capacity) {
    if (auto& same = available[capacity]; !same.empty()) {
      auto* const address = same.back();
      same.pop_back();
      return address;
    }
    if (capacity > arena::size - taken)
      throw error("out of memory: no room for " + std::to_string(capacity) + " bytes on the delayed device");
    auto* const address = room.begin() + taken;
    taken += capacity;
    counted.reserved_bytes += static_cast<std::int64_t>(capacity);
    poison(arena::bytes_of(address), capacity); // nobody knows it yet
    return address;
  }

  // In the stream's order, where there is one.
  void put(std::function<void()> piece) {
    if (const auto there = stream.lock())
      there->put(std::move(piece));
    else
      piece();
  }
};

namespace {

std::size_t rounded(std::size_t bytes) {
  return std::max<std::size_t>((bytes + 63) / 64 * 64, 64);
}

} // namespace

struct delayed_memory::block final : memory_block {
  std::shared_ptr<shared_state> owner;
  memory_use use;

  block(std::shared_ptr<shared_state> o, std::byte* address, std::size_t bytes, memory_use u)
      : memory_block(address, bytes, false), owner(std::move(o)), use(u) {}
  ~block() override {
    const std::lock_guard lock(owner->mutex); // the overwriting is asked for before the next owner can ask for anything
    owner->put([address = data(), bytes = size(), room = owner] { poison(arena::bytes_of(address), bytes); });
    owner->available[rounded(size())].push_back(data());
    owner->count(use, -static_cast<std::int64_t>(size()));
  }
};

delayed_memory::delayed_memory() : state_(std::make_shared<shared_state>()) {}
delayed_memory::~delayed_memory() = default;

buffer delayed_memory::allocate(std::size_t bytes, memory_use use) {
  if (bytes > arena::size) throw error("out of memory: no room for " + std::to_string(bytes) + " bytes");
  const std::lock_guard lock(state_->mutex);
  auto made = std::make_shared<block>(state_, state_->take(rounded(bytes)), bytes, use);
  state_->count(use, static_cast<std::int64_t>(bytes));
  return buffer(std::move(made));
}

buffer delayed_memory::allocate_zeroed(std::size_t bytes, memory_use use) {
  auto made = allocate(bytes, use);
  const std::lock_guard lock(state_->mutex);
  state_->put([address = made.data(), bytes, room = state_] { std::memset(arena::bytes_of(address), 0, bytes); });
  return made;
}

memory_usage delayed_memory::usage() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counted;
}

void delayed_memory::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  state_->counted.peak_bytes = state_->counted.live_bytes;
  state_->counted.total_peak_bytes = state_->counted.total_live_bytes;
}

void delayed_memory::trim() {
  const std::lock_guard lock(state_->mutex);
  for (const auto& [capacity, blocks] : state_->available)
    state_->counted.reserved_bytes -= static_cast<std::int64_t>(capacity * blocks.size());
  state_->available.clear(); // addresses are not used twice then: there are enough
}

void delayed_memory::belong_to(const std::shared_ptr<device_queue>& stream) {
  const std::lock_guard lock(state_->mutex);
  const auto now = state_->stream.lock();
  if (now != nullptr && now != stream) throw usage_error("[device] a delayed device has one stream at a time");
  state_->stream = stream;
}

bool delayed_memory::holds(const tensor& x) const {
  return state_->room.holds(x.raw());
}

tensor delayed_memory::bytes_of(const tensor& x) {
  if (!x) return x;
  check(!x.is_on_host(), "the delayed device cannot read the host's memory");
  auto seen = std::make_shared<memory_block>(arena::bytes_of(x.raw()), x.storage().size());
  return {x.type(), x.dims(), buffer(std::move(seen)), x.format()};
}

} // namespace penstock::testing
