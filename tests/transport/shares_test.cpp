// Cutting buckets: nothing is lost, nothing is cut twice, elements stay whole.
#include "transport/shares.hpp"

#include <gtest/gtest.h>

namespace penstock::transport {
namespace {

std::vector<part> parts_of(memory_pool& pool, const std::vector<std::size_t>& sizes) {
  std::vector<part> parts;
  for (const std::size_t bytes : sizes)
    parts.push_back({pool.allocate(bytes + 8, memory_use::scratch), 8, bytes});
  return parts;
}

std::vector<std::size_t> sizes_of(const std::vector<part>& parts) {
  std::vector<std::size_t> sizes;
  for (const part& p : parts)
    sizes.push_back(p.size);
  return sizes;
}

TEST(ShareCutter, SharesCoverABucketInOrderWithoutOverlap) {
  for (const std::size_t ranks : {1, 2, 3, 4, 7})
    for (const std::size_t element : {1, 2, 4, 12})
      for (const std::size_t count : {0, 1, 3, 63, 64, 65, 1000, 262'144, 300'001, 3'000'017}) {
        const share_cutter cutter(ranks, element);
        const std::size_t bytes = count * element;
        std::size_t at = 0;
        for (std::uint64_t slice = 0; slice < cutter.slices(bytes); ++slice)
          for (std::size_t owner = 0; owner < ranks; ++owner) {
            const byte_range share = cutter.share(bytes, slice, owner);
            EXPECT_EQ(share.begin, at);
            EXPECT_EQ(share.size() % element, 0u);
            EXPECT_EQ(slice < cutter.slices_of(bytes, owner), !share.empty());
            at = share.end;
          }
        EXPECT_EQ(at, bytes) << ranks << " ranks, " << count << " elements of " << element;
      }
}

TEST(ShareCutter, ATinyBucketHasOneOwner) {
  const share_cutter cutter(4, 4);
  std::uint64_t owners = 0;
  for (std::size_t owner = 0; owner < 4; ++owner)
    owners += cutter.slices_of(12, owner);
  EXPECT_EQ(owners, 1u);
}

TEST(ShareCutter, SharesOfALargeBucketAreAlike) {
  const share_cutter cutter(3, 4);
  std::vector<std::size_t> owned(3);
  for (std::uint64_t slice = 0; slice < cutter.slices(10'000'000); ++slice)
    for (std::size_t owner = 0; owner < 3; ++owner)
      owned[owner] += cutter.share(10'000'000, slice, owner).size();
  for (const std::size_t bytes : owned)
    EXPECT_NEAR(static_cast<double>(bytes), 10'000'000 / 3.0, 512);
}

TEST(ByteRun, CutsAcrossPartsAndLeavesEmptyOnesOut) {
  memory_pool pool;
  const auto parts = parts_of(pool, {0, 8, 0, 4, 20, 0});
  const byte_run run(parts);
  EXPECT_EQ(run.size(), 32u);
  const auto pieces = run.cut({4, 20});
  ASSERT_EQ(sizes_of(pieces), (std::vector<std::size_t>{4, 4, 8}));
  EXPECT_EQ(pieces[0].data(), parts[1].data() + 4);
  EXPECT_EQ(pieces[1].data(), parts[3].data());
  EXPECT_EQ(pieces[2].data(), parts[4].data());
  EXPECT_TRUE(run.cut({8, 8}).empty());
  EXPECT_EQ(sizes_of(run.cut({0, 32})), (std::vector<std::size_t>{8, 4, 20}));
}

TEST(ByteRun, APieceIsTheOneOfTheCutAndNoneBeyond) {
  memory_pool pool;
  const byte_run run(parts_of(pool, {8, 4, 20}));
  for (std::size_t begin = 0; begin <= 32; begin += 4)
    for (std::size_t end = begin; end <= 32; end += 4) {
      const auto pieces = run.cut({begin, end});
      for (std::size_t i = 0; i < pieces.size(); ++i)
        EXPECT_EQ(run.piece({begin, end}, i).data(), pieces[i].data());
      EXPECT_EQ(run.piece({begin, end}, pieces.size()).size, 0u);
    }
}

TEST(ByteRun, TwoAreCutAlikeWhenTheirPartsWithBytesHaveTheSameSizes) {
  memory_pool pool;
  const byte_run run(parts_of(pool, {8, 4}));
  EXPECT_TRUE(run.cut_alike(byte_run(parts_of(pool, {0, 8, 4, 0}))));
  EXPECT_FALSE(run.cut_alike(byte_run(parts_of(pool, {4, 8}))));
  EXPECT_FALSE(run.cut_alike(byte_run()));
  EXPECT_TRUE(run.holds_whole(4));
  EXPECT_FALSE(run.holds_whole(8));
}

TEST(ByteRun, OfNothingIsEmpty) {
  memory_pool pool;
  EXPECT_TRUE(byte_run().empty());
  EXPECT_TRUE(byte_run(parts_of(pool, {0, 0})).empty());
  EXPECT_EQ(byte_run().size(), 0u);
  EXPECT_EQ(byte_run().piece({0, 4}, 0).size, 0u);
}

} // namespace
} // namespace penstock::transport
