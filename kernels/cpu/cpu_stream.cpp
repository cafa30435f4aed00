// A thread of its own that runs posted work in order, with its own compute threads.
#include "kernels/cpu/cpu_stream.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/little_memory.hpp"
#include "kernels/reference/reference_backend.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <unistd.h>

namespace penstock {

namespace {

void require_valid(const stream_options& options) {
  if (options.threads < 1)
    throw usage_error("stream '" + options.name + "': " + std::to_string(options.threads) +
                      " compute threads, at least 1 wanted");
  const long cores = ::sysconf(_SC_NPROCESSORS_CONF);
  for (const int core : options.cores)
    if (core < 0 || core >= cores || core >= CPU_SETSIZE)
      throw usage_error("stream '" + options.name + "': core " + std::to_string(core) +
                        " does not exist, this machine has " + std::to_string(cores) + " (0 to " +
                        std::to_string(cores - 1) + ")");
}

// Before the compute team exists: its threads inherit the mask of the thread that starts them.
void pin_this_thread(const stream_options& options) {
  if (options.cores.empty()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int core : options.cores)
    CPU_SET(static_cast<std::size_t>(core), &mask);
  if (const int failure = ::pthread_setaffinity_np(::pthread_self(), sizeof mask, &mask); failure != 0)
    throw error("stream '" + options.name + "': cannot be pinned to its cores: " + std::strerror(failure));
}

class cpu_stream final : public stream {
public:
  cpu_stream(std::shared_ptr<device> owner, const stream_options& options)
      : owner_(std::move(owner)), options_(options) {
    std::promise<void> started;
    auto outcome = started.get_future();
    require_threads(1, "the thread of " + options.name);
    thread_ = std::thread([this, &started] { main(started); });
    try {
      outcome.get();
    } catch (...) {
      thread_.join();
      throw;
    }
  }

  ~cpu_stream() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void post(work job, completion done) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({std::move(job), std::move(done)});
    }
    wake_.notify_one();
  }

  const stream_options& options() const override { return options_; }

private:
  struct item {
    work job;
    completion done;
  };

  void main(std::promise<void>& started) {
    std::unique_ptr<backend> ops;
    try {
      ::pthread_setname_np(::pthread_self(), options_.name.substr(0, 15).c_str());
      pin_this_thread(options_);
      set_compute_threads(options_.threads);
      ops = options_.reference ? make_reference_backend(*owner_) : make_cpu_backend(*owner_);
    } catch (...) {
      started.set_exception(std::current_exception());
      return;
    }
    started.set_value();
    while (auto next = take())
      run_one(*ops, *next);
  }

  std::optional<item> take() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return std::nullopt;
    std::optional<item> next(std::move(queue_.front()));
    queue_.pop_front();
    return next;
  }

  static void run_one(backend& ops, item& next) {
    std::exception_ptr failure;
    {
      const work job = std::move(next.job); // gone before the completion, and with it the tensors it held
      next.job = nullptr;
      try {
        job(ops);
      } catch (...) {
        failure = in_our_words(std::current_exception());
      }
    }
    if (next.done) next.done(failure);
  }

  std::shared_ptr<device> owner_;
  stream_options options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<item> queue_; // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

} // namespace

std::unique_ptr<stream> make_cpu_stream(std::shared_ptr<device> owner, const stream_options& options) {
  require_valid(options);
  return std::make_unique<cpu_stream>(std::move(owner), options);
}

} // namespace penstock
