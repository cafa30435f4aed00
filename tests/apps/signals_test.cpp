// Signals that come while a program is about to be replaced, or to leave.
#include "apps/runner/signals.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>
#include <unistd.h>

namespace penstock::apps {
namespace {

TEST(HeldSignals, WaitUntilTheyAreHeldNoLonger) {
  actors::run_control control;
  const signal_guard signals(control);
  {
    const held_signals hold;
    ::kill(::getpid(), SIGUSR1);
    EXPECT_FALSE(control.checkpoint);
  }
  EXPECT_TRUE(control.checkpoint);
}

TEST(HeldSignals, ArePassedOnByThreadsThatGetThem) {
  actors::run_control control;
  const signal_guard signals(control);
  std::promise<void> stop;
  std::thread other([until = stop.get_future()] { until.wait(); });
  {
    const held_signals hold;
    ::pthread_kill(other.native_handle(), SIGUSR1);
    stop.set_value();
    other.join();
    EXPECT_FALSE(control.checkpoint);
    sigset_t waiting;
    ASSERT_EQ(::sigpending(&waiting), 0);
    EXPECT_EQ(sigismember(&waiting, SIGUSR1), 1);
  }
  EXPECT_TRUE(control.checkpoint);
}

TEST(LateSignals, LeaveAnEndedProgramItsCode) {
  const auto leave = [] {
    {
      actors::run_control control;
      const signal_guard signals(control);
      ::raise(SIGINT);
    }
    ::raise(SIGINT);
    ::raise(SIGUSR1);
    std::exit(signal_guard::exit_code());
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(130), "SIGINT");
}

TEST(LateSignals, AreTheSystemsWhereNobodyAskedForTheEnd) {
  const auto leave = [] {
    {
      actors::run_control control;
      const signal_guard signals(control);
    }
    ::raise(SIGTERM);
  };
  EXPECT_EXIT(leave(), ::testing::KilledBySignal(SIGTERM), "");
}

} // namespace
} // namespace penstock::apps
