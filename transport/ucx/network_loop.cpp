// Progress while there is any, then arm, then sleep.
#include "transport/ucx/network_loop.hpp"

#include "transport/ucx/worker.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <optional>
#include <thread>
#include <utility> // before Asio of Boost 1.74, which forgets it

namespace penstock::transport {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

struct network_loop::implementation {
  /// A worker with its event descriptor.
  struct watched {
    ucx_worker& worker;
    asio::posix::stream_descriptor events;
    bool is_awaited = false;
  };
  struct ending {
    std::function<bool()> finished;
    clock::time_point deadline;
  };

  implementation(const std::vector<ucx_worker*>& w, bool spin, chore c, fault_handler f)
      : poll(spin), between(std::move(c)), on_fault(std::move(f)) {
    for (ucx_worker* worker : w)
      workers.push_back(
          std::make_unique<watched>(watched{*worker, asio::posix::stream_descriptor(io, worker->event_descriptor())}));
    thread = std::thread([this] { run(); });
  }

  ~implementation() {
    for (auto& w : workers)
      w->events.release(); // UCX closes it
  }

  void run() {
    try {
      while (!is_over()) {
        bool has_worked = run_tasks();
        has_worked = between() || has_worked;
        has_worked = make_progress() || has_worked;
        if (!has_worked && !poll && arm()) sleep();
      }
    } catch (...) {
      on_fault(std::current_exception());
    }
  }

  bool is_over() {
    if (!end) return false;
    if (clock::now() >= end->deadline) return true;
    const std::lock_guard lock(mutex);
    return posted.empty() && end->finished();
  }

  bool run_tasks() {
    {
      const std::lock_guard lock(mutex);
      running.swap(posted);
    }
    for (task& t : running)
      t();
    const bool any = !running.empty();
    running.clear();
    return any;
  }

  bool make_progress() {
    unsigned events = 0;
    for (auto& w : workers)
      events += ucp_worker_progress(w->worker.handle());
    return events > 0;
  }

  bool arm() {
    for (auto& w : workers) {
      if (!w->worker.arm()) return false;
    }
    return true;
  }

  void sleep() {
    for (auto& w : workers) {
      if (std::exchange(w->is_awaited, true)) continue;
      w->events.async_wait(asio::posix::stream_descriptor::wait_read,
                           [&w = *w](const boost::system::error_code&) { w.is_awaited = false; });
    }
    {
      const std::lock_guard lock(mutex);
      if (!posted.empty()) return;
      is_asleep = true;
    }
    if (end)
      io.run_one_until(end->deadline);
    else
      io.run_one();
    const std::lock_guard lock(mutex);
    is_asleep = false;
  }

  void post(task what) {
    const std::lock_guard lock(mutex);
    posted.push_back(std::move(what));
    if (std::exchange(is_asleep, false)) asio::post(io, [] {});
  }

  const bool poll;
  const chore between;
  const fault_handler on_fault;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::vector<std::unique_ptr<watched>> workers;
  std::optional<ending> end; // of the loop's thread, like `running`
  std::vector<task> running;
  std::mutex mutex;
  std::vector<task> posted;
  bool is_asleep = false; // and nothing was posted since
  std::thread thread;
};

network_loop::network_loop(std::vector<ucx_worker*> workers, bool poll, chore between, fault_handler on_fault)
    : self_(std::make_unique<implementation>(workers, poll, std::move(between), std::move(on_fault))) {}

network_loop::~network_loop() {
  if (self_->thread.joinable()) stop([] { return true; }, {});
}

void network_loop::post(task what) {
  self_->post(std::move(what));
}

bool network_loop::is_this_thread() const {
  return std::this_thread::get_id() == self_->thread.get_id();
}

void network_loop::stop(std::function<bool()> finished, std::chrono::milliseconds within) {
  post([this, last = implementation::ending{std::move(finished), clock::now() + within}] { self_->end = last; });
  self_->thread.join();
}

} // namespace penstock::transport
