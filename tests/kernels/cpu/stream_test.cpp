// Streams of the CPU device: order, threads, pinning, failures.
#include "kernels/backend.hpp"
#include "kernels/check.hpp"
#include "kernels/cuda/cuda_device.hpp"
#include "kernels/device.hpp"
#include "kernels/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <pthread.h>
#include <sched.h>
#include <thread>

namespace penstock {
namespace {

class CpuStream : public ::testing::Test {
public:
  std::shared_ptr<device> machine = open_device({device_kind::cpu, 0});
};

TEST_F(CpuStream, RunsPostedWorkInOrderOnOneThread) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  {
    const auto one = machine->create_stream({.name = "order"});
    for (int i = 0; i < 100; ++i)
      one->post(
          [&, i](backend&) {
            order.push_back(i);
            threads.push_back(std::this_thread::get_id());
          },
          nullptr);
  } // destroying the stream finishes what was posted
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(std::count(threads.begin(), threads.end(), threads.front()), 100);
  EXPECT_TRUE(threads.front() != std::this_thread::get_id());
}

TEST_F(CpuStream, DestroysTheWorkBeforeItsCompletion) {
  const auto one = machine->create_stream({.name = "lifetime"});
  auto held = std::make_shared<int>(1);
  std::promise<long> uses;
  const std::weak_ptr<int> watched = held;
  one->post([held = std::move(held)](backend&) {}, [&](std::exception_ptr) { uses.set_value(watched.use_count()); });
  EXPECT_EQ(uses.get_future().get(), 0);
}

TEST_F(CpuStream, CarriesWhatTheWorkThrewAndGoesOn) {
  const auto one = machine->create_stream({.name = "failure"});
  std::promise<std::exception_ptr> carried;
  one->post([](backend&) { throw error("a layer failed"); },
            [&](std::exception_ptr failure) { carried.set_value(failure); });
  const auto failure = carried.get_future().get();
  ASSERT_TRUE(failure);
  EXPECT_THROW(std::rethrow_exception(failure), error);
  EXPECT_THROW(one->run([](backend&) { throw usage_error("again"); }), usage_error);
  bool ran = false;
  one->run([&](backend&) { ran = true; });
  EXPECT_TRUE(ran);
}

TEST_F(CpuStream, IsNamedAndPinnedToItsCores) {
  const auto one = machine->create_stream({.name = "a-rather-long-name", .cores = {0}});
  one->run([](backend&) {
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    EXPECT_STREQ(name, "a-rather-long-n");
    cpu_set_t mask;
    ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof mask, &mask), 0);
    EXPECT_EQ(CPU_COUNT(&mask), 1);
    EXPECT_TRUE(CPU_ISSET(0, &mask));
  });
}

TEST_F(CpuStream, RefusesThreadCountsAndCoresThatDoNotExist) {
  EXPECT_THROW(machine->create_stream({.name = "none", .threads = 0}), usage_error);
  EXPECT_THROW(machine->create_stream({.name = "far", .cores = {100000}}), usage_error);
  EXPECT_THROW(machine->create_stream({.name = "negative", .cores = {-1}}), usage_error);
  EXPECT_EQ(machine->create_stream({.name = "fine", .threads = 2})->options().threads, 2);
}

TEST_F(CpuStream, KeepsItsDeviceAlive) {
  auto one = machine->create_stream({.name = "owner"});
  const std::weak_ptr<device> watched = machine;
  machine.reset();
  EXPECT_FALSE(watched.expired());
  one->run([](backend& ops) { EXPECT_EQ(to_string(ops.device().id()), "cpu:0"); });
  one.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_F(CpuStream, HandsOutThePlainLoopsWhenAskedTo) {
  const auto one = machine->create_stream({.name = "reference", .reference = true});
  one->run([](backend& ops) { EXPECT_EQ(ops.activation_format({2, 64, 8, 8}), nullptr); });
}

TEST(CudaDevice, IsReportedAsUnavailableInABuildWithoutIt) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "this machine has a CUDA device";
  try {
    open_cuda_device(0);
    FAIL() << "opened a device that is not there";
  } catch (const error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("[device] cuda:0 unavailable"));
  }
}

TEST_F(CpuStream, BesideAnotherTakesTurnsWithItInItsOwnMemory) {
  const auto other = open_device({});
  const auto one = machine->create_stream({.name = "one", .threads = 1, .reference = true});
  auto two = other->create_stream_beside(*one);
  EXPECT_EQ(two->options().name, "one");
  std::vector<int> order;
  std::thread::id first, second;
  tensor kept;
  one->post(
      [&](backend&) {
        first = std::this_thread::get_id();
        order.push_back(1);
      },
      {});
  two->post(
      [&](backend& ops) {
        second = std::this_thread::get_id();
        order.push_back(2);
        kept = ops.allocate(dtype::f32, {256}, memory_use::scratch);
      },
      {});
  one->run([&](backend&) { order.push_back(3); });
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(first, second);
  EXPECT_GE(other->memory().usage().total_live_bytes, 1024);
  EXPECT_EQ(machine->memory().usage().total_live_bytes, 0);
  kept = {};
  two.reset(); // the other goes on
  one->run([&](backend&) { order.push_back(4); });
  EXPECT_EQ(order.size(), 4U);
}

} // namespace
} // namespace penstock
