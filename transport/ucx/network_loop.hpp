// The network's thread of an endpoint: makes progress in UCX's workers, and sleeps on a Boost.Asio loop between events.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace penstock::transport {

class ucx_worker;

class network_loop {
public:
  using task = std::function<void()>;
  /// Asked between two looks at what came in: does some work of its own, and says whether there was any.
  using chore = std::function<bool()>;
  /// Told on the loop's thread when it cannot go on: what UCX or a task has thrown.
  using fault_handler = std::function<void(const std::exception_ptr&)>;

  /// Starts the thread. The workers must outlive the loop. `poll`: spins instead of sleeping.
  network_loop(std::vector<ucx_worker*> workers, bool poll, chore between, fault_handler on_fault);
  ~network_loop(); ///< ends without waiting for anything, when stop() has not been called
  network_loop(const network_loop&) = delete;
  network_loop& operator=(const network_loop&) = delete;

  /// Runs the task on the loop's thread, in the order posted. Any thread.
  void post(task what);
  bool is_this_thread() const;

  /// Goes on until `finished` says so (asked on the loop's thread, after all tasks that were posted) or the time is
  /// over, then ends the thread. Not from the loop's own thread.
  void stop(std::function<bool()> finished, std::chrono::milliseconds within);

private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace penstock::transport
