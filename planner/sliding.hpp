// Facts by index, where those below some index are settled one after another and can be forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::planner {

/// A ring from the first index that is not settled to the last that was touched: as large as these lie apart, however
/// far the indices run. `Fact` is a small value whose default says that nothing has happened yet.
template <class Fact>
class sliding {
public:
  /// All below it are settled.
  std::int64_t first() const { return first_; }
  /// The default where nothing was noted; only for indices of at least first().
  Fact at(std::int64_t index) const { return index - first_ < size_ ? ring_[place(index - first_)] : Fact{}; }
  /// Notes a fact about an index of at least first().
  void note(std::int64_t index, const Fact& fact) {
    const auto offset = index - first_;
    if (offset >= static_cast<std::int64_t>(ring_.size())) grow(offset + 1);
    for (; size_ <= offset; ++size_)
      ring_[place(size_)] = Fact{};
    ring_[place(offset)] = fact;
  }
  /// Passes what is settled.
  template <class IsSettled>
  void settle(IsSettled is_settled) {
    for (; size_ > 0 && is_settled(ring_[begin_]); --size_, ++first_)
      begin_ = (begin_ + 1) & (ring_.size() - 1);
  }
  /// What is noted from first() on.
  std::int64_t size() const { return size_; }

private:
  std::size_t place(std::int64_t offset) const {
    return (begin_ + static_cast<std::size_t>(offset)) & (ring_.size() - 1);
  }
  void grow(std::int64_t wanted) {
    auto length = ring_.empty() ? std::size_t{8} : ring_.size();
    while (static_cast<std::int64_t>(length) < wanted)
      length *= 2;
    std::vector<Fact> larger(length);
    for (std::int64_t i = 0; i < size_; ++i)
      larger[static_cast<std::size_t>(i)] = ring_[place(i)];
    ring_ = std::move(larger);
    begin_ = 0;
  }

  std::vector<Fact> ring_; // a power of two long
  std::size_t begin_ = 0;
  std::int64_t size_ = 0;
  std::int64_t first_ = 0;
};

} // namespace penstock::planner
