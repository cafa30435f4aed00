// The all-reduce: the bits of a plain sum in member order, whatever the ranks, sizes, parts and timing; and its
// failures.
#include "tests/transport/endpoint_kinds.hpp"
#include "tests/transport/reduction.hpp"
#include "transport/in_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <random>
#include <thread>

namespace penstock::transport {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t element = sizeof(float);

/// How results and contributions share memory.
enum class memory { apart, shared };

struct workload {
  std::vector<int> rank_of;        ///< by member
  std::vector<std::size_t> counts; ///< floats, by bucket
  memory results = memory::apart;
  std::optional<std::uint64_t> shuffle_seed;
  bool (*contributes)(std::size_t member, std::uint64_t key) = [](std::size_t, std::uint64_t) { return true; };
};

int ranks_of(const workload& w) {
  return 1 + *std::max_element(w.rank_of.begin(), w.rank_of.end());
}

/// By bucket; empty where no member contributes.
std::vector<std::vector<float>> expected_sums(const workload& w) {
  std::vector<std::vector<float>> sums;
  for (std::uint64_t key = 0; key < w.counts.size(); ++key) {
    std::vector<std::vector<float>> by_member(w.rank_of.size());
    for (std::size_t m = 0; m < w.rank_of.size(); ++m)
      if (w.contributes(m, key)) by_member[m] = contribution_of(m, key, w.counts[key]);
    sums.push_back(plain_sum(by_member));
  }
  return sums;
}

/// One rank: its buckets are started in an order of its own, and compared when all are done.
void run_rank(const workload& w, const std::vector<std::vector<float>>& sums, endpoint& data) {
  const int rank = data.rank();
  if (std::find(w.rank_of.begin(), w.rank_of.end(), rank) == w.rank_of.end()) return;
  memory_pool pool;
  outcomes done;
  all_reduce reduce(data, {w.rank_of}, reductions, add_floats, element);
  std::vector<std::uint64_t> keys(w.counts.size());
  std::iota(keys.begin(), keys.end(), 0);
  std::shuffle(keys.begin(), keys.end(), std::minstd_rand(static_cast<unsigned>(rank + 1)));
  std::vector<std::vector<part>> results(keys.size());
  const float untouched = 0.25f;
  for (const std::uint64_t key : keys) {
    results[key] = in_parts(pool, std::vector<float>(w.counts[key], untouched), key);
    std::vector<std::vector<part>> contributions;
    bool is_shared = false;
    for (std::size_t m = 0; m < w.rank_of.size(); ++m) {
      if (w.rank_of[m] != rank) continue;
      auto& c = contributions.emplace_back();
      if (!w.contributes(m, key)) continue;
      c = in_parts(pool, contribution_of(m, key, w.counts[key]), key);
      if (w.results == memory::shared && !std::exchange(is_shared, true)) results[key] = c;
    }
    reduce.start(key, std::move(contributions), results[key], done.next());
  }
  ASSERT_TRUE(done.wait_for(keys.size())) << "rank " << rank << " waits for ever";
  EXPECT_THAT(done.texts(), Each(""));
  for (std::uint64_t key = 0; key < keys.size(); ++key) {
    const auto& sum = sums[key].empty() ? std::vector<float>(w.counts[key], untouched) : sums[key];
    EXPECT_TRUE(bits_of(from_parts(results[key])) == bits_of(sum)) << "bucket " << key << " on rank " << rank;
  }
}

void expect_plain_sums(const workload& w, const std::vector<std::unique_ptr<endpoint>>& endpoints) {
  const auto sums = expected_sums(w);
  std::vector<std::thread> ranks;
  for (const auto& data : endpoints)
    ranks.emplace_back([&] { run_rank(w, sums, *data); });
  for (auto& rank : ranks)
    rank.join();
}

void expect_plain_sums(const workload& w) {
  expect_plain_sums(w, make_in_process_endpoints(ranks_of(w), w.shuffle_seed));
}

const std::vector<std::size_t> assorted = {0, 1, 3, 63, 64, 65, 1000, 50'003, 5};
const std::vector<std::vector<int>> groups = {{0},       {0, 0, 0},       {0, 1},         {0, 1, 2},
                                              {0, 0, 1}, {0, 1, 1, 1},    {1, 0, 1},      {0, 1, 2, 3, 4, 5},
                                              {2, 0},    {3, 1, 0, 2, 1}, {0, 1, 2, 3, 0}};

TEST(AllReduce, SumsAreThoseInMemberOrder) {
  for (const auto& rank_of : groups) {
    SCOPED_TRACE(::testing::PrintToString(rank_of));
    expect_plain_sums({rank_of, assorted});
  }
}

TEST(AllReduce, ResultsMayLieOverTheFirstContribution) {
  for (const auto& rank_of : groups) {
    SCOPED_TRACE(::testing::PrintToString(rank_of));
    expect_plain_sums({rank_of, assorted, memory::shared});
  }
}

TEST(AllReduce, LargeBucketsTakeManySlices) {
  for (const auto& rank_of : {std::vector{0, 1}, {0, 0, 1}, {0, 1, 2, 3}})
    for (const auto results : {memory::apart, memory::shared}) {
      SCOPED_TRACE(::testing::PrintToString(rank_of));
      expect_plain_sums({rank_of, {2'000'000, 777'777}, results});
    }
}

TEST(AllReduce, TheFloatsOfTheseTestsShowTheOrderOfASum) {
  std::vector<std::vector<float>> by_member;
  for (std::size_t m = 0; m < 3; ++m)
    by_member.push_back(contribution_of(m, 0, 1000));
  const auto forward = plain_sum(by_member);
  std::swap(by_member[0], by_member[2]);
  EXPECT_NE(bits_of(forward), bits_of(plain_sum(by_member)));
}

TEST(AllReduce, MessagesMayOvertakeEachOther) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    expect_plain_sums({{0, 1, 2, 3}, {1'100'000, 1, 64, 20'000, 70, 300}, memory::shared, seed});
    expect_plain_sums({{0, 1, 1, 2}, {1'100'000, 1, 64, 20'000, 70, 300}, memory::apart, seed});
  }
}

TEST(AllReduce, MembersMayContributeNothing) {
  const auto contributes = [](std::size_t member, std::uint64_t key) { return (key >> member) % 2 == 1; };
  for (const auto results : {memory::apart, memory::shared})
    for (const std::size_t count : {1, 3'000, 600'000})
      expect_plain_sums({{0, 1, 1}, std::vector<std::size_t>(8, count), results, 5, contributes});
}

TEST(AllReduce, ManySmallBucketsAreInFlightAtOnce) {
  std::vector<std::size_t> counts(300);
  for (std::size_t key = 0; key < counts.size(); ++key)
    counts[key] = key * 13 % 257;
  expect_plain_sums({{0, 1, 2}, counts, memory::shared, 3});
}

TEST(AllReduce, OneRankAloneSendsNothing) {
  const auto endpoints = make_in_process_endpoints(2);
  expect_plain_sums({{0, 0}, assorted}, endpoints);
  EXPECT_EQ(endpoints[0]->traffic_with(1).messages_sent, 0u);
}

TEST(AllReduce, SendsAsManyBytesAsARing) {
  const auto endpoints = make_in_process_endpoints(4);
  expect_plain_sums({{0, 1, 2, 3}, {2 << 20}}, endpoints);
  std::uint64_t sent = 0;
  for (int peer = 1; peer < 4; ++peer)
    sent += endpoints[0]->traffic_with(peer).bytes_sent;
  const std::uint64_t ring = 2 * 3 * (2 << 20) * element / 4;
  EXPECT_GE(sent, ring);
  EXPECT_LE(sent, ring + ring / 100);
}

class AllReduceOverEndpoints : public EndpointTest {};

TEST_P(AllReduceOverEndpoints, SumsAreThoseInMemberOrder) {
  for (const auto& rank_of : {std::vector{0, 1}, {0, 1, 1, 2}, {0, 1, 2, 3}})
    for (const auto results : {memory::apart, memory::shared}) {
      SCOPED_TRACE(::testing::PrintToString(rank_of));
      const workload w{rank_of, {1'100'000, 0, 1, 64, 5'000, 50'003}, results};
      expect_plain_sums(w, make(ranks_of(w)));
    }
}

INSTANTIATE_TEST_SUITE_P(Each, AllReduceOverEndpoints, ::testing::ValuesIn(endpoint_kinds()),
                         [](const auto& tested) { return tested.param.name; });

/// Of a round in which one key is used again.
std::size_t count_of(std::size_t round) {
  return 1 + round * 37 % 500;
}

/// Rank `data` sums up `rounds` buckets of one key, each started as soon as the one before is done here.
void reuse_one_key(endpoint& data, std::size_t rounds, std::vector<std::vector<float>>& sums) {
  memory_pool pool;
  std::promise<void> finished;
  all_reduce reduce(data, {{0, 1, 2}}, reductions, add_floats, element);
  std::function<void(std::size_t)> start = [&](std::size_t round) {
    const auto me = static_cast<std::size_t>(data.rank());
    const auto parts = in_parts(pool, contribution_of(me, round, count_of(round)), round);
    reduce.start(1, {parts}, parts, [&, round, parts](std::exception_ptr why) {
      if (why) return finished.set_exception(why);
      sums[round] = from_parts(parts);
      if (round + 1 < rounds)
        start(round + 1);
      else
        finished.set_value();
    });
  };
  start(0);
  auto end = finished.get_future();
  ASSERT_EQ(end.wait_for(long_enough), std::future_status::ready);
  EXPECT_NO_THROW(end.get());
}

TEST(AllReduce, AKeyIsFreeWhenItsCompletionIsCalled) {
  constexpr std::size_t rounds = 200;
  const auto endpoints = make_in_process_endpoints(3, 11);
  std::vector<std::vector<std::vector<float>>> sums(3, std::vector<std::vector<float>>(rounds));
  std::vector<std::thread> ranks;
  for (const auto& data : endpoints)
    ranks.emplace_back([&] { reuse_one_key(*data, rounds, sums[static_cast<std::size_t>(data->rank())]); });
  for (auto& rank : ranks)
    rank.join();
  workload w{{0, 1, 2}, {}};
  for (std::size_t round = 0; round < rounds; ++round)
    w.counts.push_back(count_of(round));
  const auto expected = expected_sums(w);
  for (std::size_t round = 0; round < rounds; ++round)
    for (const auto& of_rank : sums)
      EXPECT_TRUE(bits_of(of_rank[round]) == bits_of(expected[round])) << "round " << round;
}

/// Two ranks and an all-reduce on the first, or on both.
class AllReduceFailures : public ::testing::Test {
protected:
  std::unique_ptr<all_reduce> reduce_on(std::size_t rank) {
    return std::make_unique<all_reduce>(*endpoints[rank], group{{0, 1}}, reductions, add_floats, element);
  }
  std::vector<part> floats(std::size_t count) {
    return {{pool.allocate(count * element, memory_use::gradients), 0, count * element}};
  }

  memory_pool pool;
  std::vector<std::unique_ptr<endpoint>> endpoints = make_in_process_endpoints(2);
  outcomes done, elsewhere;
};

TEST_F(AllReduceFailures, APeerThatVanishesEndsAllBucketsOnce) {
  const auto reduce = reduce_on(0);
  endpoints[1].reset();
  for (std::uint64_t key = 0; key < 3; ++key) {
    const auto parts = floats(1000);
    reduce->start(key, {parts}, parts, done.next());
  }
  ASSERT_TRUE(done.wait_for(3));
  const auto parts = floats(1000);
  reduce->start(7, {parts}, parts, done.next());
  ASSERT_TRUE(done.wait_for(4));
  EXPECT_THAT(done.texts(), AllOf(::testing::SizeIs(4), Each(HasSubstr("rank 1"))));
}

TEST_F(AllReduceFailures, DestructionDropsWhatIsInFlight) {
  const auto owned = std::make_shared<int>(0);
  std::weak_ptr<int> watch = owned;
  {
    const auto reduce = reduce_on(0);
    for (std::uint64_t key = 0; key < 3; ++key) {
      const auto parts = floats(1'000'000);
      reduce->start(key, {parts}, parts, [owned, finish = done.next()](std::exception_ptr why) { finish(why); });
    }
  }
  EXPECT_TRUE(done.texts().empty());
  EXPECT_EQ(owned.use_count(), 1);
  endpoints.clear();
  EXPECT_EQ(pool.usage().total_live_bytes, 0);
}

TEST_F(AllReduceFailures, ACompletionMayDestroyTheAllReduce) {
  const auto other = reduce_on(1);
  auto mine = reduce_on(0);
  const auto parts = floats(100'000);
  mine->start(1, {parts}, parts, [&, finish = done.next()](std::exception_ptr why) {
    mine.reset();
    finish(why);
  });
  const auto others = floats(100'000);
  other->start(1, {others}, others, elsewhere.next());
  ASSERT_TRUE(done.wait_for(1));
  ASSERT_TRUE(elsewhere.wait_for(1));
  EXPECT_EQ(done.texts(), std::vector<std::string>{""});
}

TEST_F(AllReduceFailures, ACompletionMayHoldTheLastHandleOnTheAllReduce) {
  const auto other = reduce_on(1);
  std::promise<void> destroyed;
  std::shared_ptr<all_reduce> mine(reduce_on(0).release(), [&](all_reduce* reduce) {
    delete reduce;
    destroyed.set_value();
  });
  const auto parts = floats(1000);
  mine->start(1, {parts}, parts, [mine, finish = done.next()](std::exception_ptr why) { finish(why); });
  mine.reset();
  const auto others = floats(1000);
  other->start(1, {others}, others, elsewhere.next());
  ASSERT_TRUE(done.wait_for(1));
  ASSERT_TRUE(elsewhere.wait_for(1));
  EXPECT_EQ(destroyed.get_future().wait_for(long_enough), std::future_status::ready);
}

TEST_F(AllReduceFailures, ForgottenBucketsEndQuietlyAndLaterOnesGoOn) {
  {
    const auto here = reduce_on(0);
    const auto there = reduce_on(1);
    const auto owned = std::make_shared<int>(0);
    for (const std::uint64_t key : {1, 2}) {
      const auto parts = floats(300'000);
      here->start(key, {parts}, parts, [owned, finish = done.next()](std::exception_ptr why) { finish(why); });
    }
    here->forget_below(3);
    EXPECT_EQ(owned.use_count(), 1);
    EXPECT_THROW(here->start(2, {floats(1)}, floats(1), done.next()), std::logic_error);
    // What the other rank still says of a forgotten bucket is ignored, and so is a bucket it has not started.
    const auto late = floats(300'000);
    there->start(2, {late}, late, elsewhere.next());
    there->forget_below(3);
    const auto parts = floats(300'000);
    here->start(3, {parts}, parts, done.next());
    const auto others = floats(300'000);
    there->start(3, {others}, others, elsewhere.next());
    ASSERT_TRUE(done.wait_for(1));
    ASSERT_TRUE(elsewhere.wait_for(1));
    EXPECT_THAT(done.texts(), ::testing::ElementsAre(""));
    EXPECT_THAT(elsewhere.texts(), ::testing::ElementsAre(""));
  }
  endpoints.clear();
  EXPECT_EQ(pool.usage().total_live_bytes, 0);
}

TEST_F(AllReduceFailures, RanksThatDisagreeAboutABucketAreTold) {
  const auto here = reduce_on(0);
  const auto there = reduce_on(1);
  const auto few = floats(1000);
  const auto many = floats(2000);
  here->start(4, {few}, few, done.next());
  there->start(4, {many}, many, elsewhere.next());
  ASSERT_TRUE(done.wait_for(1));
  ASSERT_TRUE(elsewhere.wait_for(1));
  for (const auto& text : {done.texts()[0], elsewhere.texts()[0]})
    EXPECT_THAT(text, AllOf(HasSubstr("bucket 4"), HasSubstr("4000 bytes"), HasSubstr("8000 bytes")));
}

TEST_F(AllReduceFailures, ContributionsInOtherPartsAreRefused) {
  const auto here = reduce_on(0);
  const auto there = reduce_on(1);
  const auto whole = floats(1000);
  auto halves = floats(500);
  halves.push_back(floats(500)[0]);
  here->start(4, {whole}, whole, done.next());
  there->start(4, {halves}, halves, elsewhere.next());
  ASSERT_TRUE(done.wait_for(1));
  EXPECT_THAT(done.texts()[0], HasSubstr("pieces"));
}

TEST_F(AllReduceFailures, WhatNobodyExpectsFailsTheConnection) {
  for (const std::uint64_t to : {0, 1}) {
    endpoints = make_in_process_endpoints(2);
    const auto reduce = reduce_on(0);
    std::promise<std::string> lost;
    endpoints[0]->on_failure([&](int, const std::string& what) { lost.set_value(what); });
    endpoints[1]->send(0, channel{static_cast<std::uint64_t>(reductions) + to}, {std::string(40, '\x7f'), {}});
    auto what = lost.get_future();
    ASSERT_EQ(what.wait_for(long_enough), std::future_status::ready);
    EXPECT_THAT(what.get(), HasSubstr("which nobody expects"));
    endpoints[0]->on_failure({});
  }
}

TEST_F(AllReduceFailures, WrongUseIsRefusedAtOnce) {
  const auto reduce = reduce_on(0);
  const auto parts = floats(10);
  EXPECT_THROW(reduce->start(1, {}, parts, done.next()), std::logic_error);
  EXPECT_THROW(reduce->start(1, {floats(9)}, parts, done.next()), std::logic_error);
  const std::vector<part> torn = {{parts[0].storage, 0, 6}, {parts[0].storage, 6, 34}};
  EXPECT_THROW(reduce->start(1, {torn}, torn, done.next()), std::logic_error);
  reduce->start(1, {parts}, parts, done.next());
  EXPECT_THROW(reduce->start(1, {parts}, parts, done.next()), std::logic_error);
  EXPECT_THROW(all_reduce(*endpoints[0], group{{1}}, reductions, add_floats, element), std::logic_error);
  EXPECT_TRUE(done.texts().empty());
}

} // namespace
} // namespace penstock::transport
