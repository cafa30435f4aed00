// One run at a time writes into a checkpoint folder.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace penstock::actors {

/// Holds DIR/lock, a file that says who holds it (program, process, host) and that the kernel locks: when its owner has
/// ended, however, it is free. Where file systems of several hosts do not pass locks on, the owner also renews the
/// file's time, and another host's owner that does so is believed. Frees the folder of what a run that died while
/// writing has left.
class checkpoint_lock {
public:
  /// Makes the folder where there is none. Waits for `patience` for a holder to go; polls `given_up`. Throws
  /// penstock::error, one line that names the holder, or why there can be no lock.
  explicit checkpoint_lock(std::filesystem::path dir, std::chrono::milliseconds patience = {},
                           const std::function<bool()>& given_up = {});
  /// Removes the file, and folders that it made and that nothing was written into.
  ~checkpoint_lock();
  checkpoint_lock(const checkpoint_lock&) = delete;
  checkpoint_lock& operator=(const checkpoint_lock&) = delete;

  /// Before every write, any thread: takes the lock again when the folder or the file was removed meanwhile. Throws
  /// penstock::error when another run has it now.
  void keep();
  const std::filesystem::path& folder() const { return dir_; }

private:
  class file;
  void acquire(std::chrono::milliseconds patience, const std::function<bool()>& given_up);
  void renew();

  std::filesystem::path dir_;
  std::vector<std::filesystem::path> made_; ///< folders, the innermost last
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::unique_ptr<file> held_;
  std::thread renewer_;
};

/// Removes what runs that were killed while writing have left in it: unfinished checkpoints and temporary files. Only
/// for who holds the lock.
void remove_leftovers(const std::filesystem::path& dir);

} // namespace penstock::actors
