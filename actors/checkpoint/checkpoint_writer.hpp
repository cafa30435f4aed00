// Writes checkpoints while the run goes on: what is written was copied at the drain.
#pragma once

#include "actors/checkpoint/checkpoint.hpp"
#include "actors/checkpoint/checkpoint_lock.hpp"

#include <functional>
#include <future>

namespace penstock::actors {

/// One checkpoint at a time; used by one thread. Waits ten minutes for one: then start() and finish() throw
/// penstock::error, and the destructor ends the process.
class checkpoint_writer {
public:
  /// Writes into the lock's folder, as long as the lock is this run's. `written` and `failed` are called on the writing
  /// thread.
  checkpoint_writer(checkpoint_lock& folder, std::function<void(const std::filesystem::path&, std::int64_t)> written,
                    std::function<void()> failed);
  ~checkpoint_writer();
  checkpoint_writer(const checkpoint_writer&) = delete;
  checkpoint_writer& operator=(const checkpoint_writer&) = delete;

  /// Waits for the one before, and starts. Throws what the one before failed with.
  void start(std::vector<stage_snapshot> stages, checkpoint_position at);
  /// Waits for the last one. Throws what it failed with, once.
  void finish();

private:
  checkpoint_lock& lock_;
  std::function<void(const std::filesystem::path&, std::int64_t)> written_;
  std::function<void()> failed_;
  std::future<void> running_;
};

} // namespace penstock::actors
