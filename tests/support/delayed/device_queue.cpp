// Dawdles, then works off what has come in.
#include "tests/support/delayed/device_queue.hpp"

#include "tests/support/delayed/counters.hpp"

#include <future>
#include <pthread.h>

namespace penstock::testing {

device_queue::device_queue(std::uint64_t seed) : random_(seed), thread_([this] { main(); }) {}

device_queue::~device_queue() {
  put(nullptr);
  thread_.join();
}

void device_queue::put(std::function<void()> piece) {
  bool is_time = false;
  {
    const std::lock_guard lock(mutex_);
    is_awaited_ = is_awaited_ || !piece;
    pieces_.push_back(std::move(piece));
    is_time = pieces_.size() == 1 || pieces_.size() == burst_ || is_awaited_;
  }
  if (is_time) wake_.notify_one();
}

void device_queue::wait_until_done() {
  ++counted().host_waits;
  std::promise<void> done;
  put([&done] { done.set_value(); });
  {
    const std::lock_guard lock(mutex_);
    is_awaited_ = true;
  }
  wake_.notify_one();
  done.get_future().wait();
}

std::chrono::microseconds device_queue::some_time(int most) {
  return std::chrono::microseconds(std::uniform_int_distribution(0, most)(random_));
}

void device_queue::pause_at_times() {
  if (random_() % 128 != 0) return;
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, some_time(50), [this] { return is_awaited_; });
}

void device_queue::main() {
  ::pthread_setname_np(::pthread_self(), "delayed device");
  for (;;) {
    std::deque<std::function<void()>> burst;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !pieces_.empty(); });
      burst_ = 1 + random_() % 24;
      wake_.wait_for(lock, some_time(200), [&] { return is_awaited_ || pieces_.size() >= burst_; });
      is_awaited_ = false;
      burst.swap(pieces_);
    }
    for (auto& piece : burst) {
      if (!piece) return; // the end: nothing comes behind it
      pause_at_times();
      piece();
      piece = nullptr; // and what it held, before the next one
    }
  }
}

} // namespace penstock::testing
