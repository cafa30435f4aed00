// The thread on which a delayed device computes: in the order asked for, but late and in bursts.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

namespace penstock::testing {

/// Pieces wait until some are there or a little time has passed, then run one after another with short pauses; how many
/// and how long comes from the seed. A piece must not throw.
class device_queue {
public:
  explicit device_queue(std::uint64_t seed);
  ~device_queue(); ///< when all pieces have run
  device_queue(const device_queue&) = delete;
  device_queue& operator=(const device_queue&) = delete;

  void put(std::function<void()> piece);
  /// Until all that was put before has run and is gone.
  void wait_until_done();

private:
  void main();
  void pause_at_times();
  std::chrono::microseconds some_time(int most);

  std::mt19937_64 random_; // of the thread
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> pieces_; // guarded by mutex_
  std::size_t burst_ = 1;                    // guarded by mutex_: so many are worth waking for
  bool is_awaited_ = false;                  // guarded by mutex_: do not dawdle
  std::thread thread_;
};

} // namespace penstock::testing
