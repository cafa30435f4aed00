// Control planes of ranks that are threads of one process.
#include "kernels/check.hpp"
#include "transport/control/hub.hpp"
#include "transport/control/seat.hpp"
#include "transport/control/this_member.hpp"
#include "transport/control/words.hpp"
#include "transport/in_process.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace penstock::transport {

namespace {

using clock = std::chrono::steady_clock;
using task = std::function<void()>;

/// The hub and a queue for each rank, under one lock.
class shared_job {
public:
  using delivery = std::function<void(frame)>;

  explicit shared_job(int size)
      : queues_(static_cast<std::size_t>(size)),
        hub_({}, hello_of(0, size), clock::now(), [this](const auto& to, const frame& f) {
          for (const int rank : to)
            queues_[static_cast<std::size_t>(rank)].frames.push_back(f);
        }) {
    for (int r = 1; r < size; ++r)
      hub_.meet(hello_of(r, size), clock::now());
    for (int r = 0; r < size; ++r)
      hub_.seated(r);
  }

  void up(int from, frame f) {
    const std::lock_guard lock(mutex_);
    hub_.take(from, std::move(f), clock::now());
    changed_.notify_all();
  }

  void post(int rank, task t) {
    const std::lock_guard lock(mutex_);
    queues_[static_cast<std::size_t>(rank)].tasks.push_back(std::move(t));
    changed_.notify_all();
  }

  /// This rank's plane is destroyed.
  void stop(int rank) {
    const std::lock_guard lock(mutex_);
    hub_.closed(rank, clock::now());
    queues_[static_cast<std::size_t>(rank)].stopped = true;
    changed_.notify_all();
  }

  /// Hands the rank its frames until stop(). Whichever thread wakes first turns a ripe suspicion into a verdict.
  void serve(int rank, const delivery& deliver) {
    auto& mine = queues_[static_cast<std::size_t>(rank)];
    std::unique_lock lock(mutex_);
    while (!mine.stopped) {
      if (!mine.frames.empty()) {
        auto f = std::move(mine.frames.front());
        mine.frames.pop_front();
        lock.unlock();
        deliver(std::move(f));
        lock.lock();
      } else if (!mine.tasks.empty()) {
        const auto t = std::move(mine.tasks.front());
        mine.tasks.pop_front();
        lock.unlock();
        t();
        lock.lock();
      } else if (const auto due = hub_.next_suspicion()) {
        changed_.wait_until(lock, *due);
        hub_.tick(clock::now());
        if (hub_.verdict()) changed_.notify_all();
      } else {
        changed_.wait(lock);
      }
    }
  }

private:
  struct queue {
    std::deque<frame> frames;
    std::deque<task> tasks;
    bool stopped = false;
  };

  static hello hello_of(int rank, int size) { return {.rank = rank, .size = size, .who = this_member()}; }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<queue> queues_;
  hub hub_;
};

class in_process_control final : public seat {
public:
  in_process_control(std::shared_ptr<shared_job> job, int rank, int size)
      : seat(rank, size), job_(std::move(job)),
        thread_([this] { job_->serve(this->rank(), [this](frame f) { take(std::move(f)); }); }) {}

  ~in_process_control() override {
    job_->stop(rank());
    thread_.join();
  }

  void wait_for_welcome() { wait_for_members(10s, "the members are unknown"); }

  void doing(std::string_view what) override {
    up({.kind = frame_kind::pulse, .payload = one_line(what, max_text_bytes)});
  }

private:
  void up(frame f) override { job_->up(rank(), std::move(f)); }
  void post(std::function<void()> t) override { job_->post(rank(), std::move(t)); }
  bool on_network_thread() const override { return std::this_thread::get_id() == thread_.get_id(); }

  std::shared_ptr<shared_job> job_;
  std::thread thread_; // the last member: it uses the others
};

} // namespace

std::vector<std::unique_ptr<control_plane>> make_in_process_control(int size) {
  check(size > 0, "a job has at least one rank");
  const auto job = std::make_shared<shared_job>(size);
  std::vector<std::unique_ptr<control_plane>> planes;
  for (int r = 0; r < size; ++r) {
    auto plane = std::make_unique<in_process_control>(job, r, size);
    plane->wait_for_welcome();
    planes.push_back(std::move(plane));
  }
  return planes;
}

} // namespace penstock::transport
