// The order of an epoch's samples. The same on every platform and library: generator and draws are written out here.
#include "actors/dataset.hpp"
#include "kernels/check.hpp"

#include <numeric>
#include <utility>

namespace penstock::actors {
namespace {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): adds the golden ratio's 64-bit fraction, then mixes.
class splitmix64 {
public:
  explicit splitmix64(std::uint64_t state) : state_(state) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound): draws below 2^64 mod bound are thrown away, so that every remainder is equally likely.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t rejected = (0 - bound) % bound;
    std::uint64_t draw = next();
    while (draw < rejected)
      draw = next();
    return draw % bound;
  }

private:
  std::uint64_t state_;
};

} // namespace

// Fisher-Yates from the last place down; the epoch is mixed into the seed's first draw, so neither (s, e + 1) nor
// (s + 1, e) is a shifted copy of (s, e).
std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch, bool shuffled) {
  check(samples >= 0, "an epoch has no fewer than 0 samples");
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffled) return order;
  splitmix64 random(splitmix64(splitmix64(seed).next() ^ static_cast<std::uint64_t>(epoch)).next());
  for (std::size_t last = order.size(); last > 1; --last) {
    std::swap(order[last - 1], order[static_cast<std::size_t>(random.below(last))]);
  }
  return order;
}

epoch_orders::order_ptr epoch_orders::of(std::int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [e, order] : orders_)
    if (e == epoch) return order;
  if (orders_.size() >= 2) orders_.erase(orders_.begin());
  auto order = std::make_shared<const std::vector<std::int64_t>>(epoch_order(samples_, seed_, epoch, shuffled_));
  orders_.emplace_back(epoch, order);
  return order;
}

} // namespace penstock::actors
