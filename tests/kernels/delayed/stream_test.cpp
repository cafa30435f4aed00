// Streams of the delayed device: asked at once, computed later, complete when the device has finished.
#include "kernels/check.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "tests/kernels/delayed/delayed_test.hpp"
#include "tests/support/delayed/counters.hpp"

namespace penstock::testing {
namespace {

class DelayedStream : public ::testing::Test {
public:
  memory_pool host;
  delayed_machine one;
};

TEST_F(DelayedStream, AsksAtOnceAndComputesLater) {
  barrier there;
  std::promise<void> asked;
  tensor sum;
  auto done = one.work->start([&](backend& ops) {
    there.hold(ops);
    sum = ops.from_host(counting(host, 4), memory_use::activations);
    ops.get<elementwise_ops>().accumulate(sum, sum);
    asked.set_value();
  });
  asked.get_future().wait(); // while the device stands still
  EXPECT_EQ(done.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  there.let_go();
  done.get();
  EXPECT_EQ(values_on(*one.work, sum), (std::vector<float>{0, 2, 4, 6}));
}

TEST_F(DelayedStream, CompletesWorkInOrderAndLetsGoOfWhatItHeldBefore) {
  std::vector<int> order;
  std::vector<long> held_at_completion;
  for (int i = 0; i < 50; ++i) {
    auto held = std::make_shared<int>(i);
    std::weak_ptr<int> watched = held;
    one.work->post(
        [held = std::move(held)](backend& ops) { ops.allocate_zeroed(dtype::f32, {8}, memory_use::scratch); },
        [&, i, watched](std::exception_ptr) {
          order.push_back(i);
          held_at_completion.push_back(watched.use_count());
        });
  }
  one.work.reset(); // finishes what was posted
  ASSERT_EQ(order.size(), 50U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(held_at_completion, std::vector<long>(50, 0));
}

TEST_F(DelayedStream, WhatTheWorkHeldLivesUntilTheDeviceHasFinished) {
  barrier there;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  std::promise<void> asked;
  auto done = one.work->start([&, held = std::move(held)](backend& ops) {
    there.hold(ops);
    asked.set_value();
  });
  asked.get_future().wait();
  EXPECT_EQ(watched.use_count(), 1);
  there.let_go();
  done.get();
  EXPECT_EQ(watched.use_count(), 0);
}

TEST_F(DelayedStream, CarriesTheFirstFailureOfTheWorkOrOfTheDevice) {
  EXPECT_THROW(one.work->run([](backend&) { throw usage_error("asked wrongly"); }), usage_error);
  EXPECT_THROW(one.work->run([&](backend& ops) {
    tensor short_one = ops.from_host(counting(host, 3), memory_use::scratch);
    ops.get<elementwise_ops>().accumulate(short_one, ops.from_host(counting(host, 4), memory_use::scratch));
    ops.allocate_zeroed(dtype::f32, {8}, memory_use::scratch);
  }),
               std::logic_error);
  bool ran = false;
  one.work->run([&](backend&) { ran = true; });
  EXPECT_TRUE(ran);
}

TEST_F(DelayedStream, BesideAnotherTakesTurnsWithItInItsOwnMemory) {
  const auto other = open_delayed_device();
  const auto two = other->create_stream_beside(*one.work);
  tensor kept;
  std::vector<int> order;
  one.work->post([](backend&) {}, [&](std::exception_ptr) { order.push_back(1); });
  two->post([&](backend& ops) { kept = ops.allocate(dtype::f32, {256}, memory_use::scratch); },
            [&](std::exception_ptr) { order.push_back(2); });
  one.work->run([](backend&) {});
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(other->memory().usage().total_live_bytes, 1024);
  EXPECT_EQ(one.device->memory().usage().total_live_bytes, 0);
}

TEST_F(DelayedStream, IsTheOnlyOneOfItsDevice) {
  EXPECT_THROW(one.device->create_stream({.name = "second"}), usage_error);
  one.work.reset();
  EXPECT_NO_THROW(one.device->create_stream({.name = "next"}));
}

TEST_F(DelayedStream, EventsAreDoneWhenTheDeviceGetsThereAndHoldUpOtherStreams) {
  delayed_machine two;
  barrier there;
  std::promise<event_ptr> recorded;
  tensor made, copied;
  auto first = one.work->start([&](backend& ops) {
    there.hold(ops);
    made = ops.from_host(counting(host, 3), memory_use::activations);
    recorded.set_value(ops.record());
  });
  const auto reached = recorded.get_future().get();
  EXPECT_FALSE(reached->is_done());
  EXPECT_THROW(reached->time_ns(), std::logic_error);
  auto second = two.work->start([&](backend& ops) {
    ops.wait_for(reached);
    copied = ops.copy(made, memory_use::activations);
  });
  there.let_go();
  first.get();
  second.get();
  EXPECT_TRUE(reached->is_done());
  EXPECT_GT(reached->time_ns(), 0);
  EXPECT_EQ(values_on(*two.work, copied), (std::vector<float>{0, 1, 2}));
}

TEST_F(DelayedStream, CountsWhatIsAskedForAndRefusesASecondFetchInOneWork) {
  counted().reset();
  std::vector<tensor> fetched;
  one.work->run([&](backend& ops) {
    const auto x = ops.from_host(counting(host, 2), memory_use::scratch);
    fetched = ops.fetch({x, ops.copy(x, memory_use::scratch)});
  });
  ASSERT_EQ(fetched.size(), 2U);
  EXPECT_EQ(values_of(fetched[1]), (std::vector<float>{0, 1}));
  EXPECT_EQ(counted().works, 1);
  EXPECT_EQ(counted().fetches, 1);
  EXPECT_EQ(counted().ops, 2);
  EXPECT_THROW(one.work->run([](backend& ops) {
    ops.fetch({});
    ops.fetch({});
  }),
               error);
  EXPECT_NO_THROW(one.work->run([](backend& ops) { ops.fetch({}); }));
}

} // namespace
} // namespace penstock::testing
