// A thread for what the network's thread must not wait for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace penstock::transport {

/// Runs tasks one after another, in the order posted. It sleeps while there is nothing to do.
class task_thread {
public:
  using task = std::function<void()>;

  /// `name`: of the thread, at most 15 characters.
  explicit task_thread(const std::string& name);
  ~task_thread(); ///< as stop()
  task_thread(const task_thread&) = delete;
  task_thread& operator=(const task_thread&) = delete;

  /// From any thread, its own included. A task must not throw. After stop() tasks are dropped.
  void post(task t);
  /// Drops the tasks that wait, and waits for the one that runs, unless it is the caller.
  void stop();

private:
  struct queue;
  static void run(const std::shared_ptr<queue>& tasks);

  std::shared_ptr<queue> tasks_; // the thread's too: a task may be what destroys this object
  std::thread thread_;
};

} // namespace penstock::transport
