// Blocks by size class, recycled; counters by use.
#include "kernels/memory_pool.hpp"

#include "kernels/check.hpp"
#include "kernels/little_memory.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <sys/mman.h>

namespace penstock {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

// Few distinct sizes make recycling likely; large blocks are whole huge pages, which saves TLB misses in convolutions.
std::size_t rounded(std::size_t bytes) {
  const std::size_t unit = bytes < 4096 ? 64 : bytes < huge_page ? 4096 : huge_page;
  return bytes == 0 ? 64 : (bytes + unit - 1) / unit * unit;
}

// What memory comes from, and must go back to.
struct system_block {
  std::byte* data = nullptr;
  bool is_mapped = false; // by mmap, so that it was zero
};

system_block allocate_from_heap(std::size_t capacity) {
  void* p = std::aligned_alloc(capacity < huge_page ? 64 : huge_page, capacity);
  if (p != nullptr && capacity >= huge_page) ::madvise(p, capacity, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(p), false};
}

system_block map_zeros(std::size_t capacity) {
  // One huge page more, of which what lies before and behind whole ones goes back.
  void* p = ::mmap(nullptr, capacity + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return {};
  auto* const begin = static_cast<std::byte*>(p);
  const auto before = (huge_page - reinterpret_cast<std::uintptr_t>(p) % huge_page) % huge_page;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + capacity, huge_page - before);
  ::madvise(begin + before, capacity, MADV_HUGEPAGE);
  return {begin + before, true};
}

system_block system_allocate(std::size_t capacity, bool zero) {
  return zero && capacity >= huge_page ? map_zeros(capacity) : allocate_from_heap(capacity);
}

void system_free(const system_block& block, std::size_t capacity) {
  if (block.is_mapped)
    ::munmap(block.data, capacity);
  else
    std::free(block.data);
}

// Of all pools: what they would promise together beyond what there is, the system gives too, and kills for it later.
std::atomic<std::int64_t> reserved_by_all{0};

double limit_of_memory() {
  static const double bytes = memory_there_is();
  return bytes;
}

bool memory_holds(std::size_t capacity) {
  return static_cast<double>(reserved_by_all) + static_cast<double>(capacity) <= limit_of_memory();
}

void require_memory(std::size_t capacity, std::size_t bytes) {
  if (memory_holds(capacity)) return;
  throw error("out of memory: no room for " + std::to_string(bytes) + " bytes of tensors beside " +
              std::to_string(reserved_by_all) + ": the machine, or its control group, has " +
              std::to_string(static_cast<std::int64_t>(limit_of_memory())));
}

} // namespace

struct memory_pool::shared_state {
  std::mutex mutex;
  std::multimap<std::size_t, system_block> free_blocks;
  std::size_t free_bytes = 0;
  memory_usage usage;

  ~shared_state() { release_free(); }

  void release_free() {
    for (const auto& [capacity, block] : free_blocks)
      system_free(block, capacity);
    usage.reserved_bytes -= static_cast<std::int64_t>(free_bytes);
    reserved_by_all -= static_cast<std::int64_t>(free_bytes);
    free_blocks.clear();
    free_bytes = 0;
  }

  // A block that is at most an eighth larger than needed, so that counted and reserved bytes stay close.
  system_block take_free(std::size_t needed, std::size_t& capacity) {
    const auto it = free_blocks.lower_bound(needed);
    if (it == free_blocks.end() || it->first > needed + needed / 8 + 64) return {};
    capacity = it->first;
    const auto block = it->second;
    free_bytes -= capacity;
    free_blocks.erase(it);
    return block;
  }

  // Sizes that went out of use must not pile up for ever.
  bool hoards() const {
    return free_bytes > static_cast<std::size_t>(usage.total_peak_bytes) + (std::size_t{256} << 20);
  }

  void count(memory_use use, std::int64_t bytes) {
    const auto i = static_cast<std::size_t>(use);
    usage.live_bytes[i] += bytes;
    usage.total_live_bytes += bytes;
    usage.peak_bytes[i] = std::max(usage.peak_bytes[i], usage.live_bytes[i]);
    usage.total_peak_bytes = std::max(usage.total_peak_bytes, usage.total_live_bytes);
  }
};

struct memory_pool::pool_block final : memory_block {
  std::shared_ptr<shared_state> pool;
  system_block memory;
  std::size_t capacity = 0;
  memory_use use{};

  pool_block(std::shared_ptr<shared_state> p, system_block m, std::size_t bytes, std::size_t c, memory_use u)
      : memory_block(m.data, bytes), pool(std::move(p)), memory(m), capacity(c), use(u) {}
  ~pool_block() override {
    const std::lock_guard lock(pool->mutex);
    pool->free_blocks.emplace(capacity, memory);
    pool->free_bytes += capacity;
    pool->count(use, -static_cast<std::int64_t>(size()));
  }
};

memory_pool::memory_pool() : state_(std::make_shared<shared_state>()) {}
memory_pool::~memory_pool() = default;

buffer memory_pool::allocate(std::size_t bytes, memory_use use) {
  return allocate(bytes, use, content::any);
}

buffer memory_pool::allocate_zeroed(std::size_t bytes, memory_use use) {
  return allocate(bytes, use, content::zero);
}

buffer memory_pool::allocate(std::size_t bytes, memory_use use, content wanted) {
  // A size that rounding up would carry past the largest one, such as a negative count makes.
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()))
    throw error("out of memory: no room for " + std::to_string(bytes) + " bytes: no machine has as many");
  std::size_t capacity = rounded(bytes);
  const bool zero = wanted == content::zero;
  system_block memory;
  bool is_zero = false;
  {
    const std::lock_guard lock(state_->mutex);
    memory = state_->take_free(capacity, capacity);
    if (memory.data == nullptr) {
      if (state_->hoards()) state_->release_free();
      // Under a limit of address space the last of it is for others, who could not say what they lack.
      if (memory_holds(capacity) && address_space_holds(capacity + huge_page)) memory = system_allocate(capacity, zero);
      if (memory.data == nullptr) {
        state_->release_free();
        require_memory(capacity, bytes);
        require_address_space(capacity + huge_page, std::to_string(bytes) + " bytes of tensors");
        memory = system_allocate(capacity, zero);
      }
      if (memory.data == nullptr)
        throw error("out of memory: no room for " + std::to_string(bytes) +
                    " bytes: " + std::to_string(state_->usage.total_live_bytes) + " bytes are in use on this device");
      state_->usage.reserved_bytes += static_cast<std::int64_t>(capacity);
      reserved_by_all += static_cast<std::int64_t>(capacity);
      is_zero = memory.is_mapped;
    }
    state_->count(use, static_cast<std::int64_t>(bytes));
  }
  if (zero && !is_zero) std::memset(memory.data, 0, bytes);
  return buffer(std::make_shared<pool_block>(state_, memory, bytes, capacity, use));
}

memory_usage memory_pool::usage() const {
  const std::lock_guard lock(state_->mutex);
  return state_->usage;
}

void memory_pool::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  state_->usage.peak_bytes = state_->usage.live_bytes;
  state_->usage.total_peak_bytes = state_->usage.total_live_bytes;
}

void memory_pool::trim() {
  const std::lock_guard lock(state_->mutex);
  state_->release_free();
}

} // namespace penstock
