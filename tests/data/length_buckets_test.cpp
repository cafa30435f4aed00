// Length buckets: every sample once an epoch, few shapes, little padding, and nothing but (seed, epoch) decides.
#include "apps/data/length_buckets.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <random>
#include <set>
#include <thread>

namespace penstock::apps {
namespace {

using actors::last_batch;
using sides = std::vector<std::vector<std::int32_t>>;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t longest = 50;

// Two sides that are about equally long, as sentences and their translations are.
sides translations(std::size_t samples) {
  std::mt19937 random(7);
  sides lengths(2);
  for (std::size_t i = 0; i < samples; ++i) {
    const auto source = 3 + static_cast<std::int32_t>(random() % 46);
    const auto target = source - 3 + static_cast<std::int32_t>(random() % 7);
    lengths[0].push_back(source);
    lengths[1].push_back(std::clamp(target, 1, static_cast<std::int32_t>(longest)));
  }
  return lengths;
}

length_buckets buckets_of(const sides& lengths, bucket_options options) {
  return {lengths, std::vector<std::int64_t>(lengths.size(), longest), options};
}

std::vector<std::int64_t> samples_of_epoch(const length_buckets& buckets, std::int64_t epoch) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < buckets.per_epoch(); ++i) {
    const auto minibatch = buckets.at(epoch * buckets.per_epoch() + i);
    EXPECT_EQ(minibatch.epoch, epoch);
    EXPECT_GE(static_cast<std::int64_t>(minibatch.samples.size()), buckets.least_samples());
    samples.insert(samples.end(), minibatch.samples.begin(), minibatch.samples.end());
  }
  return samples;
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<std::int64_t> counted_to(std::size_t samples) {
  std::vector<std::int64_t> values(samples);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(LengthBuckets, EveryEpochHasEverySampleOnceInAnOrderOfItsOwn) {
  const auto lengths = translations(1003);
  for (const bucket_options& options :
       {bucket_options{.batch = 64}, {.batch = 1}, {.batch = 5000}, {.batch_tokens = 700}}) {
    const auto buckets = buckets_of(lengths, options);
    std::set<std::vector<std::int64_t>> orders;
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      const auto samples = samples_of_epoch(buckets, epoch);
      EXPECT_EQ(sorted(samples), counted_to(1003));
      orders.insert(samples);
    }
    EXPECT_EQ(orders.size(), 4U);
  }
}

TEST(LengthBuckets, OrderFollowsFromSeedAndEpochWhateverWasAskedBefore) {
  const auto lengths = translations(500);
  const auto one = buckets_of(lengths, {.batch = 16, .seed = 3});
  const auto other = buckets_of(lengths, {.batch = 16, .seed = 3});
  const auto far = samples_of_epoch(one, 9);
  for (const std::int64_t epoch : {0, 3, 1, 9})
    samples_of_epoch(other, epoch);
  EXPECT_EQ(samples_of_epoch(other, 9), far);
  EXPECT_NE(samples_of_epoch(buckets_of(lengths, {.batch = 16, .seed = 4}), 9), far);
}

TEST(LengthBuckets, AMinibatchIsOfOneBucketAndPaddedToTheWidth) {
  const auto lengths = translations(800);
  const auto buckets = buckets_of(lengths, {.width = 10, .batch = 16});
  for (std::int64_t i = 0; i < 2 * buckets.per_epoch(); ++i) {
    const auto minibatch = buckets.at(i);
    std::set<int> found;
    std::vector<std::int64_t> most(2);
    for (const auto sample : minibatch.samples) {
      const auto at = static_cast<std::size_t>(sample);
      found.insert((std::max(lengths[0][at], lengths[1][at]) - 1) / 10);
      for (std::size_t side = 0; side < 2; ++side)
        most[side] = std::max<std::int64_t>(most[side], lengths[side][at]);
    }
    EXPECT_EQ(found.size(), 1U);
    for (std::size_t side = 0; side < 2; ++side)
      EXPECT_EQ(minibatch.extents[side], (most[side] + 9) / 10 * 10);
  }
}

TEST(LengthBuckets, NothingIsPaddedBeyondTheLongest) {
  const length_buckets buckets(sides{{47, 46, 12}}, {47}, {.width = 10, .batch = 8});
  EXPECT_EQ(buckets.at(0).extents.at(0) + buckets.at(1).extents.at(0), 47 + 20);
}

TEST(LengthBuckets, MinibatchesAreShuffledAmongTheBuckets) {
  const auto buckets = buckets_of(translations(1000), {.batch = 10});
  std::set<std::int64_t> begins;
  for (std::int64_t i = 0; i < 10; ++i)
    begins.insert(buckets.at(i).extents[0]);
  EXPECT_GT(begins.size(), 3U);
}

TEST(LengthBuckets, UnshuffledIsShortToLongInTheDatasOrder) {
  const length_buckets buckets(sides{{9, 2, 7, 3, 1, 0}}, {10}, {.width = 5, .batch = 3, .is_shuffled = false});
  EXPECT_THAT(buckets.at(0).samples, ElementsAre(1, 3, 4));
  EXPECT_THAT(buckets.at(1).samples, ElementsAre(5));
  EXPECT_THAT(buckets.at(2).samples, ElementsAre(0, 2));
  EXPECT_THAT(buckets.at(4).samples, ElementsAre(5)); // and so in every epoch
  EXPECT_EQ(buckets.least_samples(), 1);
}

TEST(LengthBuckets, DroppingLeavesOutWhatFillsNoMinibatchOfItsBucket) {
  const length_buckets buckets(sides{{9, 2, 7, 3, 1, 4}}, {10}, {.width = 5, .batch = 3, .last = last_batch::drop});
  EXPECT_EQ(buckets.per_epoch(), 1);
  EXPECT_EQ(buckets.at(0).samples.size(), 3U);
  EXPECT_EQ(buckets.least_samples(), 3);
  EXPECT_THAT(
      [] {
        length_buckets(sides{{9, 2}}, {10}, {.width = 5, .batch = 2, .last = last_batch::drop});
      },
      ThrowsMessage<usage_error>(HasSubstr("--last-batch drop")));
}

TEST(LengthBuckets, TokensBoundTheSamplesOfAMinibatch) {
  const auto buckets = buckets_of(translations(2000), {.batch_tokens = 400});
  std::size_t most = 0;
  for (std::int64_t i = 0; i < buckets.per_epoch(); ++i) {
    const auto minibatch = buckets.at(i);
    for (const auto extent : minibatch.extents)
      EXPECT_LE(extent * static_cast<std::int64_t>(minibatch.samples.size()), 400);
    most = std::max(most, minibatch.samples.size());
  }
  EXPECT_EQ(most, 80U); // of five tokens
  EXPECT_THAT([] { buckets_of(translations(2000), {.batch_tokens = 49}); },
              ThrowsMessage<usage_error>(HasSubstr("--batch-tokens: found 49, wanted at least 50")));
}

TEST(LengthBuckets, PaddingIsLittleAndShapesAreFewAndTheSameInEveryEpoch) {
  const auto buckets = buckets_of(translations(20'000), {.batch = 64});
  for (const std::int64_t epoch : {0, 1, 7}) {
    const auto padding = buckets.padding(epoch);
    EXPECT_LT(padding.share(), 0.16);
    EXPECT_LE(padding.shapes, 20U);
    EXPECT_EQ(padding.minibatches, buckets.per_epoch());
  }
  const auto single = length_buckets(sides{{3, 5}}, {10}, {.width = 5, .batch = 2}).padding();
  EXPECT_EQ(single.tokens, 8);
  EXPECT_EQ(single.padded_slots, 10);
  EXPECT_DOUBLE_EQ(single.share(), 0.2);
}

TEST(LengthBuckets, ThereAreAtMostTenOfTheirOwnAccord) {
  EXPECT_EQ(length_buckets(sides{{4, 50}}, {50}, {}).width(), 5);
  EXPECT_EQ(length_buckets(sides{{4, 384}}, {512}, {}).width(), 39);
  sides mostly_short{std::vector<std::int32_t>(300, 20)};
  mostly_short[0][7] = 400; // the few long ones share the last bucket
  mostly_short[0][8] = 90;
  const length_buckets buckets(mostly_short, {512}, {.batch = 8});
  EXPECT_EQ(buckets.width(), 5);
  EXPECT_EQ(buckets.padding().shapes, 2U);
}

TEST(LengthBuckets, AnyThreadMayAsk) {
  const auto buckets = buckets_of(translations(300), {.batch = 7});
  const auto wanted = samples_of_epoch(buckets, 5);
  std::vector<std::vector<std::int64_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& samples : found)
    threads.emplace_back([&] {
      for (const std::int64_t epoch : {1, 2, 3, 4})
        samples_of_epoch(buckets, epoch);
      samples = samples_of_epoch(buckets, 5);
    });
  for (auto& thread : threads)
    thread.join();
  for (const auto& samples : found)
    EXPECT_EQ(samples, wanted);
}

} // namespace
} // namespace penstock::apps
