// The thread that runs posted work, as the host's side of a GPU's stream would: it only asks the device.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace penstock::testing {

/// One piece after another, in the order put. Pieces must not throw.
class issuing_thread {
public:
  explicit issuing_thread(const std::string& name);
  ~issuing_thread(); ///< when all pieces have run
  issuing_thread(const issuing_thread&) = delete;
  issuing_thread& operator=(const issuing_thread&) = delete;

  void put(std::function<void()> piece);
  /// Until all that was put before has run.
  void wait_until_done();

private:
  void main();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> pieces_; // guarded by mutex_; an empty one is the end
  std::thread thread_;
};

} // namespace penstock::testing
