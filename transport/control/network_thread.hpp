// The thread that serves a rank's control connections.
#pragma once

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility> // Boost 1.74's Asio needs it first

namespace penstock::transport {

/// How long an ending rank waits until what it has still said is out.
inline constexpr auto flush_bound = std::chrono::seconds(1);

/// Runs an io_context until finish(). Not started: its user may run the context itself.
class network_thread {
public:
  network_thread() : work_(context_.get_executor()) {}
  ~network_thread() {
    finish([] {}, std::chrono::seconds(0));
  }
  network_thread(const network_thread&) = delete;
  network_thread& operator=(const network_thread&) = delete;

  boost::asio::io_context& context() { return context_; }

  /// `fault` is told, on the network's thread, what a task or an event threw. It must not throw. The others go on.
  void start(std::function<void(const std::string&)> fault) {
    context_.restart();
    thread_ = std::thread([this, fault = std::move(fault)] {
      for (bool done = false; !done;) {
        try {
          context_.run();
          done = true;
        } catch (const std::exception& e) {
          fault(e.what());
        }
      }
      ended_.set_value();
    });
  }

  void post(std::function<void()> task) { boost::asio::post(context_, std::move(task)); }
  bool is_this() const { return std::this_thread::get_id() == thread_.get_id(); }

  /// Runs `last_task`, then whatever that leaves under way, for at most the bound. Nothing runs after.
  void finish(std::function<void()> last_task, std::chrono::milliseconds bound) {
    if (!thread_.joinable()) return;
    post(std::move(last_task));
    work_.reset();
    ended_.get_future().wait_for(bound);
    context_.stop();
    thread_.join();
  }

private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::promise<void> ended_;
  std::thread thread_;
};

/// How often a rank looks who is silent and whether it has something new to say.
inline std::chrono::milliseconds tick_of(std::chrono::milliseconds silence) {
  return std::clamp(silence / 50, std::chrono::milliseconds(5), std::chrono::milliseconds(100));
}

} // namespace penstock::transport
