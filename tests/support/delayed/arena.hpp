// Addresses that mean something to the delayed device alone: the host that follows one dies at once.
#pragma once

#include <cstddef>

namespace penstock::testing {

/// Room for one device's blocks, twice: protected pages, whose addresses are handed out, and behind them at a fixed
/// distance the pages that hold the bytes. Pages that were never touched take no memory.
class arena {
public:
  static constexpr std::size_t size = std::size_t{8} << 30;

  arena();
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  std::byte* begin() const { return begin_; }
  bool holds(const std::byte* address) const { return address >= begin_ && address < begin_ + size; }

  /// Where the bytes of an address are, of any arena. For the device's thread, and for memory that nobody has yet.
  static std::byte* bytes_of(std::byte* address) { return address + size; }

private:
  std::byte* begin_;
};

} // namespace penstock::testing
