// Slow ranks and stalls, by a clock of the test's own.
#include "actors/run/watchdog.hpp"

#include <gmock/gmock.h>

namespace penstock::actors {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunWatchdog : public ::testing::Test {
public:
  run_watchdog::clock::time_point start = run_watchdog::clock::now();
  run_watchdog::verdict look(run_watchdog& w, std::chrono::milliseconds at) { return w.look(start + at); }
};

TEST_F(RunWatchdog, SaysNothingWhileAnyRankMoves) {
  run_watchdog w(30, 3);
  w.restart(start);
  for (int second = 0; second < 100; ++second) {
    w.progress(second % 3, second);
    const auto v = look(w, second * 1000ms);
    EXPECT_FALSE(v.ask);
    EXPECT_THAT(v.stalled, IsEmpty());
  }
}

TEST_F(RunWatchdog, NamesTheRankThatComputesAllTheWhileOnce) {
  run_watchdog w(60, 2);
  w.restart(start);
  look(w, 0ms);
  EXPECT_FALSE(look(w, 9000ms).ask);
  EXPECT_TRUE(look(w, 10100ms).ask);
  w.description(0, "stage 0 waits for the gradient");
  w.description(1, "stage 1 is computing");
  const auto v = look(w, 10600ms);
  EXPECT_THAT(v.slow, ElementsAre(HasSubstr("rank 1: stage 1 is computing and has been for 10 s")));
  EXPECT_THAT(v.stalled, IsEmpty());
  EXPECT_FALSE(look(w, 20000ms).ask);
  w.progress(1, 1);
  look(w, 21000ms);
  EXPECT_TRUE(look(w, 31100ms).ask) << "a new standstill";
}

TEST_F(RunWatchdog, AStallTellsWhatEveryRankWaitsFor) {
  run_watchdog w(6, 2);
  w.restart(start);
  look(w, 0ms);
  EXPECT_TRUE(look(w, 2100ms).ask) << "who is slow?";
  look(w, 2600ms);
  EXPECT_TRUE(look(w, 6100ms).ask) << "why does nothing move?";
  w.description(0, "the source has no credit");
  w.description(1, "stage 1 waits for the activation");
  EXPECT_EQ(look(w, 6600ms).stalled,
            "[stall] no progress for 6 s: rank 0: the source has no credit; rank 1: stage 1 waits for the activation");
}

TEST_F(RunWatchdog, OneProcessIsNeverCalledSlow) {
  run_watchdog w(60, 1);
  w.restart(start);
  look(w, 0ms);
  EXPECT_FALSE(look(w, 30000ms).ask);
  EXPECT_TRUE(look(w, 60100ms).ask);
  w.description(0, "stage 0 is computing");
  EXPECT_EQ(look(w, 60600ms).stalled, "[stall] no progress for 60 s: stage 0 is computing");
}

TEST_F(RunWatchdog, OthersReportAboutOnceASecond) {
  run_watchdog w(60, 2);
  EXPECT_TRUE(w.is_time_to_report(start));
  EXPECT_FALSE(w.is_time_to_report(start + 900ms));
  EXPECT_TRUE(w.is_time_to_report(start + 1000ms));
}

} // namespace
} // namespace penstock::actors
