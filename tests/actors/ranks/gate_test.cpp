// Where a message's handler runs, what waits, and what close() waits for.
#include "actors/ranks/gate.hpp"
#include "actors/run/step_log.hpp"
#include "kernels/check.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <gmock/gmock.h>

#include <future>
#include <thread>

namespace penstock::actors {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto patience = 20s;

/// What the actors got, and on which thread.
class journal {
public:
  struct note {
    std::int64_t minibatch;
    std::thread::id thread;
  };
  void add(std::int64_t minibatch) {
    const std::lock_guard lock(mutex_);
    notes_.push_back({minibatch, std::this_thread::get_id()});
    changed_.notify_all();
  }
  std::vector<note> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience, [&] { return notes_.size() >= count; })) throw error("nothing came");
    return notes_;
  }
  std::vector<std::int64_t> minibatches(std::size_t count) {
    std::vector<std::int64_t> all;
    for (const auto& n : wait_for(count))
      all.push_back(n.minibatch);
    return all;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<note> notes_;
};

/// As much of a rank's runtime as a message passes; the test's thread is the network's.
class Gate : public ::testing::Test {
public:
  ~Gate() override { through.close(); }

  static constexpr address replica{address::part::replica, 1, 0};
  static constexpr address layer_actor{address::part::cut, 0, 0};
  journal got;

  /// `first` is called with each message before it is noted. Lazy: idle until its first message, not busy with
  /// starting.
  void admit(const address& who, std::function<void(std::int64_t)> first = {}) {
    const auto behavior = [this, first](caf::event_based_actor*) -> caf::behavior {
      return {[this, first](const credit_msg& m) {
        if (first) first(m.key.minibatch);
        got.add(m.key.minibatch);
      }};
    };
    through.admit(who, system_.spawn<caf::lazy_init>(behavior));
  }
  void bring(const address& to, std::int64_t minibatch, std::int64_t stretch = 0) {
    credit_msg m;
    m.key.minibatch = minibatch;
    m.key.stretch = stretch;
    through.take(1, encode(to, m));
  }
  std::string failure() {
    std::string what;
    coordinator_->receive([&](const failure_msg& m) { what = m.who + ": " + m.what; },
                          caf::after(patience) >> [] { throw error("nothing came"); });
    return what;
  }

private:
  planner::execution_plan plan_;
  run_options options_;
  run_inputs inputs_;
  pipeline parts_;
  run_observer observer_;
  run_control control_;
  step_log steps_{nullptr, observer_, {}, 1, 1, 1};
  run_services services_{plan_, options_, parts_, inputs_, observer_, control_, steps_};
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor coordinator_{system_};

public:
  gate through{std::make_shared<actor_context>(services_, caf::actor_cast<caf::actor>(coordinator_))};
};

TEST_F(Gate, AnIdleReplicaHandlesItsMessageOnTheThreadThatBringsIt) {
  admit(replica);
  through.open(0);
  for (int i = 0; i < 3; ++i)
    bring(replica, i);
  for (const auto& n : got.wait_for(3))
    EXPECT_EQ(n.thread, std::this_thread::get_id());
}

TEST_F(Gate, ALayerActorTakesItsTimeOnAThreadOfTheScheduler) {
  admit(layer_actor);
  through.open(0);
  bring(layer_actor, 0);
  EXPECT_NE(got.wait_for(1).front().thread, std::this_thread::get_id());
}

TEST_F(Gate, AReplicaAtWorkGetsItsMessagesInOrderAndHoldsNobodyUp) {
  std::promise<void> at_work, go_on;
  admit(replica, [&, may_go_on = go_on.get_future().share()](std::int64_t minibatch) {
    if (minibatch != 0) return;
    at_work.set_value();
    may_go_on.wait_for(patience);
  });
  through.open(0);
  std::thread first([&] { bring(replica, 0); });
  at_work.get_future().wait_for(patience);
  for (int i = 1; i <= 5; ++i)
    bring(replica, i); // comes back although the replica is at work
  go_on.set_value();
  first.join();
  EXPECT_THAT(got.minibatches(6), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(Gate, WhatItsHandlerSendsToAnIdleReplicaIsHandledToo) {
  static constexpr address next{address::part::replica, 2, 0};
  admit(next);
  admit(replica, [this](std::int64_t minibatch) { bring(next, minibatch + 100); });
  through.open(0);
  bring(replica, 1);
  EXPECT_THAT(got.minibatches(2), ElementsAre(101, 1));
}

TEST_F(Gate, AStretchThatHasNotBegunHereWaits) {
  admit(replica);
  bring(replica, 20, 1);
  through.open(0);
  bring(replica, 10, 0);
  EXPECT_THAT(got.minibatches(1), ElementsAre(10));
  through.open(1);
  EXPECT_THAT(got.minibatches(2), ElementsAre(10, 20));
}

TEST_F(Gate, AMessageForNobodyIsTheRunsFailure) {
  through.open(0);
  bring({address::part::replica, 7, 1}, 0);
  EXPECT_THAT(failure(),
              HasSubstr("gate for rank 1: [message] a message for stage 7 replica 1 came, which is not on this rank"));
}

TEST_F(Gate, CloseWaitsForTheHandlerThatRuns) {
  std::promise<void> at_work;
  std::atomic<bool> is_closing{false}, is_done{false};
  admit(replica, [&](std::int64_t) {
    at_work.set_value();
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!is_closing && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    for (int i = 0; i < 2000; ++i) // close() gets the time to return too early
      std::this_thread::yield();
    is_done = true;
  });
  through.open(0);
  std::thread network([&] { bring(replica, 0); });
  at_work.get_future().wait_for(patience);
  is_closing = true;
  through.close();
  EXPECT_TRUE(is_done);
  network.join();
}

TEST_F(Gate, NothingPassesAfterClose) {
  admit(replica);
  through.open(0);
  bring(replica, 0);
  through.close();
  bring(replica, 1);
  bring({address::part::replica, 7, 1}, 2);
  EXPECT_THAT(got.minibatches(1), ElementsAre(0));
}

} // namespace
} // namespace penstock::actors
