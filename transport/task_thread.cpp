// Tasks in order on one thread.
#include "transport/task_thread.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <utility>

namespace penstock::transport {

struct task_thread::queue {
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<task> waiting;
  bool is_stopped = false;
};

task_thread::task_thread(const std::string& name) : tasks_(std::make_shared<queue>()) {
  thread_ = std::thread([tasks = tasks_] { run(tasks); });
  ::pthread_setname_np(thread_.native_handle(), name.c_str());
}

task_thread::~task_thread() {
  stop();
}

void task_thread::post(task t) {
  {
    const std::lock_guard lock(tasks_->mutex);
    if (tasks_->is_stopped) return;
    tasks_->waiting.push_back(std::move(t));
  }
  tasks_->filled.notify_one();
}

void task_thread::stop() {
  if (!thread_.joinable()) return;
  std::deque<task> dropped; // destroyed without the lock: a task may hold the last handle on anything
  {
    const std::lock_guard lock(tasks_->mutex);
    tasks_->is_stopped = true;
    dropped.swap(tasks_->waiting);
  }
  tasks_->filled.notify_one();
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void task_thread::run(const std::shared_ptr<queue>& tasks) {
  std::unique_lock lock(tasks->mutex);
  while (true) {
    tasks->filled.wait(lock, [&] { return tasks->is_stopped || !tasks->waiting.empty(); });
    if (tasks->is_stopped) return;
    task next = std::move(tasks->waiting.front());
    tasks->waiting.pop_front();
    lock.unlock();
    next();
    next = {};
    lock.lock();
  }
}

} // namespace penstock::transport
