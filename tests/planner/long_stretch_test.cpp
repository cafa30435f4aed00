// A stretch of millions of steps costs what is in flight.
#include "planner/check_schedule.hpp"
#include "planner/worker_cursor.hpp"
#include "tests/planner/list_text.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> allocations{0};

} // namespace

// Counts; all others forward to these two.
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t /*bytes*/) noexcept {
  std::free(p);
}

namespace penstock::planner::testing {
namespace {

class everything : public readiness {
public:
  bool has_input(const action& /*forward*/) const override { return true; }
  bool has_gradient(const action& /*backward*/) const override { return true; }
  bool has_version(int /*stage*/, std::int64_t /*version*/) const override { return true; }
};

void step(worker_cursor& cursor, int actions) {
  const everything ready;
  for (int i = 0; i < actions; ++i) {
    const auto a = cursor.next(ready);
    if (!a) FAIL() << "nothing left after " << i << " actions";
    cursor.begin(*a);
    cursor.oldest_needed(a->stage);
    if (a->kind == action_kind::backward) cursor.has_backward_for(a->stage, a->minibatch);
  }
}

TEST(LongStretch, IsCheckedByAShortOne) {
  const auto s = resolve_schedule(request("1f1b", {1, 1}, 8, 3'000'000));
  EXPECT_EQ(check_schedule(s), std::nullopt);
  const auto fewer = equivalent_minibatches(s, sequences_of(s));
  ASSERT_TRUE(fewer);
  EXPECT_LT(*fewer, 10);
}

TEST(LongStretch, StepsWithoutAskingForMemory) {
  for (const auto* name : {"1f1b", "gpipe", "pipedream", "pipedream-naive", "2bw"}) {
    const auto s = resolve_schedule(request(name, {1, 1, 1}, *name == 'p' ? 1 : 8, 3'000'000));
    for (const auto& w : workers_of(s)) {
      worker_cursor cursor(s, w);
      step(cursor, 1000); // whatever is in flight has found its room
      const auto before = allocations.load();
      step(cursor, 100'000);
      EXPECT_EQ(allocations.load(), before) << name << ", position " << w.position;
    }
  }
}

TEST(LongStretch, EndsWhereverItIsStopped) {
  const auto s = resolve_schedule(request("1f1b", {1, 1}, 8, 3'000'000));
  worker_cursor cursor(s, {0, 0});
  step(cursor, 17 * 1000); // M forwards and backwards, and an update
  EXPECT_EQ(describe(*cursor.head()), "forward of minibatch 1000 micro-batch 0");
  cursor.end_after(1001);
  step(cursor, 17);
  EXPECT_TRUE(cursor.finished());
  EXPECT_EQ(cursor.oldest_needed(0), std::nullopt);
}

} // namespace
} // namespace penstock::planner::testing
