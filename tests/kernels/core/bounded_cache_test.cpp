// What a cache with a bound keeps, what it lets go, and what it promises to those who hold an entry.
#include "kernels/bounded_cache.hpp"
#include "kernels/shape_key.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace penstock {
namespace {

using small_cache = bounded_cache<int, int, std::hash<int>>;

// Asks for a key and says whether it was made anew.
bool was_made(small_cache& cache, int key) {
  bool made = false;
  const auto entry = cache.find_or_make(key, [&] {
    made = true;
    return std::make_shared<int>(10 * key);
  });
  EXPECT_EQ(*entry, 10 * key);
  return made;
}

TEST(BoundedCache, MakesEachEntryOnce) {
  small_cache cache(3);
  EXPECT_TRUE(was_made(cache, 1));
  EXPECT_TRUE(was_made(cache, 2));
  EXPECT_FALSE(was_made(cache, 1));
  EXPECT_EQ(cache.size(), 2U);
}

TEST(BoundedCache, LetsGoOfTheOneThatWasNotAskedForTheLongest) {
  small_cache cache(2);
  was_made(cache, 1);
  was_made(cache, 2);
  was_made(cache, 1);
  EXPECT_TRUE(was_made(cache, 3)) << "2 goes";
  EXPECT_EQ(cache.size(), 2U);
  EXPECT_FALSE(was_made(cache, 1));
  EXPECT_TRUE(was_made(cache, 2)) << "3 goes";
  EXPECT_FALSE(was_made(cache, 1));
}

TEST(BoundedCache, LeavesAnEntryToWhoHoldsIt) {
  small_cache cache(1);
  const auto held = cache.find_or_make(1, [] { return std::make_shared<int>(5); });
  was_made(cache, 2);
  EXPECT_EQ(*held, 5);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(BoundedCache, HasNothingOfAnEntryThatCouldNotBeMade) {
  small_cache cache(2);
  const auto fail = []() -> std::shared_ptr<int> { throw std::runtime_error("no"); };
  EXPECT_THROW(cache.find_or_make(1, fail), std::runtime_error);
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_TRUE(was_made(cache, 1));
}

TEST(BoundedCache, KeepsNothingWithABoundOfNone) {
  small_cache cache(0);
  EXPECT_TRUE(was_made(cache, 1));
  EXPECT_TRUE(was_made(cache, 1));
  EXPECT_EQ(cache.size(), 0U);
}

TEST(ShapeKey, IsEqualWhereEveryNumberIs) {
  const std::array<std::int64_t, 2> stride{1, 2};
  EXPECT_EQ(shape_key::of(shape{1, 2}, stride, true), shape_key::of(shape{1, 2}, stride, true));
  EXPECT_NE(shape_key::of(shape{1, 2}, stride, true), shape_key::of(shape{1, 2}, stride, false));
  EXPECT_NE(shape_key::of(shape{1, 0}), shape_key::of(shape{1})) << "how many there are counts";
  EXPECT_THROW(shape_key::of(shape(25, 1)), std::out_of_range);
}

} // namespace
} // namespace penstock
