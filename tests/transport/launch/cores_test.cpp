// Shares of the machine: disjoint and complete where they fit, never empty.
#include "transport/launch/cores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sched.h>
#include <set>
#include <thread>

namespace penstock::transport {
namespace {

std::vector<int> allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> result;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) result.push_back(i);
  return result;
}

// A thread, because what it binds is gone with it.
template <class F>
void on_a_thread(F body) {
  std::thread(body).join();
}

TEST(CoresOfRank, GivesALoneRankEverything) {
  EXPECT_EQ(cores_of_rank(0, 1), allowed());
}

TEST(CoresOfRank, DividesCompletelyAndDisjointlyWhereItFits) {
  const auto all = allowed();
  const int many = static_cast<int>(all.size());
  std::set<std::vector<int>> distinct; // as many ranks as processors: each share is one core
  for (int r = 0; r < many; ++r)
    distinct.insert(cores_of_rank(r, many));
  for (int size = 1; size <= static_cast<int>(distinct.size()); ++size) {
    std::vector<int> together;
    for (int r = 0; r < size; ++r) {
      const auto share = cores_of_rank(r, size);
      EXPECT_TRUE(std::is_sorted(share.begin(), share.end()));
      together.insert(together.end(), share.begin(), share.end());
    }
    std::sort(together.begin(), together.end());
    EXPECT_EQ(together, all) << size << " ranks";
  }
}

TEST(CoresOfRank, IsNeverEmptyWithMoreRanksThanCores) {
  const auto all = allowed();
  const int many = 3 * static_cast<int>(all.size()) + 1;
  std::set<int> together;
  for (int r = 0; r < many; ++r) {
    const auto share = cores_of_rank(r, many);
    EXPECT_FALSE(share.empty());
    together.insert(share.begin(), share.end());
  }
  EXPECT_EQ(std::vector<int>(together.begin(), together.end()), all);
}

TEST(CoresOfRank, DividesWhatTheProcessMayUse) {
  const auto all = allowed();
  if (all.size() < 2) GTEST_SKIP() << "one processor only: nothing to leave out";
  on_a_thread([&] {
    bind_to({all.back()});
    EXPECT_EQ(cores_of_rank(0, 1), std::vector{all.back()});
    EXPECT_EQ(cores_of_rank(1, 2), std::vector{all.back()});
  });
}

TEST(CoresOfRank, KeepsTheBindingOfALauncherThatBinds) {
  const auto all = allowed();
  if (all.size() < 3) GTEST_SKIP() << "two processors at most: a narrower binding cannot be divided";
  on_a_thread([&] {
    const std::vector narrow{all[0], all[1]};
    bind_to(narrow);
    launch where{.rank = 1, .size = 2, .local_rank = 1, .local_size = 2, .source = "Slurm"};
    EXPECT_EQ(cores_of_rank(where), narrow);
    where.source = "torchrun";
    EXPECT_LE(cores_of_rank(where).size(), narrow.size());
  });
}

TEST(BindTo, BindsTheThreadAndThoseItMakes) {
  const auto all = allowed();
  on_a_thread([&] {
    bind_to({all.back()});
    EXPECT_EQ(allowed(), std::vector{all.back()});
    on_a_thread([&] { EXPECT_EQ(allowed(), std::vector{all.back()}); });
  });
  EXPECT_EQ(allowed(), all);
}

} // namespace
} // namespace penstock::transport
