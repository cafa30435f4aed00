// Waiting for one piece of work, whatever stream does it.
#include "kernels/check.hpp"
#include "kernels/reference/reference_backend.hpp"
#include "kernels/stream.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace penstock {
namespace {

// A thread for each piece of work.
class thread_stream : public stream {
public:
  ~thread_stream() override {
    for (auto& t : threads_)
      t.join();
  }
  void post(work job, completion done) override {
    threads_.emplace_back([this, job = std::move(job), done = std::move(done)]() mutable {
      std::exception_ptr failure;
      try {
        job(*ops_);
      } catch (...) {
        failure = std::current_exception();
      }
      job = nullptr;
      done(failure);
    });
  }
  const stream_options& options() const override { return options_; }

private:
  std::shared_ptr<device> device_ = open_device({});
  std::unique_ptr<backend> ops_ = make_reference_backend(*device_);
  stream_options options_;
  std::vector<std::thread> threads_;
};

TEST(Stream, RunReturnsWhenTheWorkIsDone) {
  thread_stream one;
  int done = 0;
  for (int i = 0; i < 50; ++i) {
    one.run([&](backend&) { ++done; });
    ASSERT_EQ(done, i + 1);
  }
}

TEST(Stream, RunThrowsWhatTheWorkThrew) {
  thread_stream one;
  EXPECT_THROW(one.run([](backend&) { throw usage_error("no"); }), usage_error);
  EXPECT_THROW(one.run([](backend&) { throw 3; }), int);
}

TEST(Stream, RunLetsGoOfTheWorkBeforeItReturns) {
  thread_stream one;
  auto held = std::make_shared<int>(1);
  one.run([held](backend&) {});
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Stream, StartReturnsAtOnceAndItsFutureCarriesTheEnd) {
  thread_stream one;
  std::promise<void> begin;
  auto started = one.start([&](backend&) { begin.get_future().wait(); });
  begin.set_value(); // would never be reached if start() waited
  EXPECT_NO_THROW(started.get());
  auto failed = one.start([](backend&) { throw usage_error("no"); });
  EXPECT_THROW(failed.get(), usage_error);
}

TEST(Device, IsNamedByKindAndIndex) {
  EXPECT_EQ(to_string(device_id{}), "cpu:0");
  EXPECT_EQ(to_string(device_id{device_kind::cuda, 1}), "cuda:1");
}

} // namespace
} // namespace penstock
