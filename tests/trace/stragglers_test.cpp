// The slow worker is found whether its siblings show it or only the others' waiting.
#include "tests/trace/split_run.hpp"
#include "tools/trace/stragglers.hpp"
#include "tools/trace/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace penstock::actors {
namespace {

using testing::HasSubstr;

trace_file with_ranks(trace_file file, std::vector<std::vector<int>> ranks, std::vector<std::string> hosts) {
  set_ranks(file.header, ranks);
  file.header.hosts = std::move(hosts);
  for (auto& r : file.records)
    r.rank = static_cast<std::int16_t>(rank_of(file.header, r.stage, r.replica));
  return file;
}

TEST(Stragglers, AReplicaThatComputesLongerThanItsSiblingsIsNamed) {
  auto file = simulate_ranks({.name = "data-parallel", .replicas = {4}, .minibatches = 20}, 0, 0.05);
  file = with_ranks(std::move(file), {{0, 1, 2, 3}}, {"a", "a", "b", "b"});
  for (auto& r : file.records)
    if (r.replica == 2 && r.kind <= span_kind::backward) r.end_ns += (r.end_ns - r.begin_ns) * 3 / 10;
  const auto s = summarize(file);
  const auto* slowest = slowest_worker(s.workers);
  ASSERT_NE(slowest, nullptr);
  EXPECT_EQ(slowest->rank, 2);
  EXPECT_TRUE(slowest->is_straggler);
  EXPECT_NEAR(slowest->against_siblings, 1.3, 0.05);
  EXPECT_THAT(to_text(s, file), HasSubstr("slowest rank: rank 2 on b: a micro-batch takes 1."));
}

TEST(Stragglers, ChanceIsNoStraggler) {
  std::mt19937 random(7);
  int named = 0;
  for (int round = 0; round < 40; ++round) {
    const auto file = simulate_ranks({.name = "data-parallel", .replicas = {4}, .minibatches = 20}, 0, 0.6, random());
    for (const auto& w : summarize(file).workers)
      named += w.is_straggler ? 1 : 0;
  }
  EXPECT_LE(named, 2);
}

TEST(Stragglers, WithoutSiblingsTheOneThatOthersWaitForIsNamed) {
  auto file = simulate_ranks({.name = "pipedream", .replicas = {1, 1, 1}, .minibatches = 30}, 0, 0, 1, {1, 3, 1});
  file = with_ranks(std::move(file), {{0}, {1}, {2}}, {"a", "b", "c"});
  const auto s = summarize(file);
  const auto* slowest = slowest_worker(s.workers);
  ASSERT_NE(slowest, nullptr);
  EXPECT_EQ(slowest->rank, 1);
  EXPECT_FALSE(slowest->is_straggler);
  EXPECT_GT(slowest->waited_for_seconds, 0.05);
  EXPECT_GT(slowest->busy, 0.95);
  EXPECT_LT(s.workers[0].busy, 0.5);
  EXPECT_THAT(to_text(s, file), HasSubstr("slowest rank: rank 1 on b: the others waited"));
}

TEST(Stragglers, InOneProcessReplicasAreCompared) {
  const auto file = simulate_ranks({.name = "pipedream", .replicas = {1, 1}, .minibatches = 30}, 0, 0, 1, {3, 1});
  const auto s = summarize(file);
  ASSERT_EQ(s.workers.size(), 2U);
  EXPECT_EQ(s.workers[0].rank, -1);
  EXPECT_EQ(name_of(*slowest_worker(s.workers), file.header), "stage 0");
}

TEST(Stragglers, ARankWithSeveralReplicasIsOneWorker) {
  auto file = simulate_ranks({.name = "pipedream", .replicas = {2, 2}, .minibatches = 30}, 0);
  file = with_ranks(std::move(file), {{0, 1}, {1, 0}}, {});
  const auto s = summarize(file);
  ASSERT_EQ(s.workers.size(), 2U);
  EXPECT_EQ(name_of(s.workers[1], file.header), "rank 1");
  EXPECT_LE(s.workers[0].busy, 1);
}

} // namespace
} // namespace penstock::actors
