// A queue of pieces and the thread that runs them.
#include "tests/support/delayed/issuing_thread.hpp"

#include <future>
#include <pthread.h>

namespace penstock::testing {

issuing_thread::issuing_thread(const std::string& name) : thread_([this] { main(); }) {
  ::pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

issuing_thread::~issuing_thread() {
  put(nullptr);
  thread_.join();
}

void issuing_thread::put(std::function<void()> piece) {
  {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(std::move(piece));
  }
  wake_.notify_one();
}

void issuing_thread::wait_until_done() {
  std::promise<void> done;
  put([&done] { done.set_value(); });
  done.get_future().wait();
}

void issuing_thread::main() {
  for (;;) {
    std::function<void()> piece;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !pieces_.empty(); });
      piece = std::move(pieces_.front());
      pieces_.pop_front();
    }
    if (!piece) return;
    piece();
  }
}

} // namespace penstock::testing
