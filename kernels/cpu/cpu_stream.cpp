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

/// A thread that does what streams give it, one piece after another.
class cpu_thread {
public:
  explicit cpu_thread(const stream_options& options) : options_(options) {
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
  ~cpu_thread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  cpu_thread(const cpu_thread&) = delete;
  cpu_thread& operator=(const cpu_thread&) = delete;

  /// `ops` is there until the work is done.
  void post(backend& ops, stream::work job, stream::completion done) {
    put({.ops = &ops, .job = std::move(job), .done = std::move(done)});
  }
  /// Waits for what needs no backend; rethrows what it threw.
  void run(std::function<void()> piece) {
    std::promise<void> over;
    put({.piece = std::move(piece), .done = [&over](std::exception_ptr failure) {
           if (failure)
             over.set_exception(std::move(failure));
           else
             over.set_value();
         }});
    over.get_future().get();
  }
  const stream_options& options() const { return options_; }

private:
  struct item {
    backend* ops = nullptr;
    stream::work job;
    std::function<void()> piece; // where there is no job
    stream::completion done;
  };

  void put(item next) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(next));
    }
    wake_.notify_one();
  }

  void main(std::promise<void>& started) {
    try {
      ::pthread_setname_np(::pthread_self(), options_.name.substr(0, 15).c_str());
      pin_this_thread(options_);
      set_compute_threads(options_.threads);
    } catch (...) {
      started.set_exception(std::current_exception());
      return;
    }
    started.set_value();
    while (auto next = take())
      run_one(*next);
  }

  std::optional<item> take() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return std::nullopt;
    std::optional<item> next(std::move(queue_.front()));
    queue_.pop_front();
    return next;
  }

  static void run_one(item& next) {
    std::exception_ptr failure;
    {
      const stream::work job = std::move(next.job); // gone before the completion, and with it the tensors it held
      next.job = nullptr;
      try {
        if (job)
          job(*next.ops);
        else
          next.piece();
      } catch (...) {
        failure = in_our_words(std::current_exception());
      }
    }
    if (next.done) next.done(failure);
  }

  stream_options options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<item> queue_; // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

class cpu_stream final : public stream {
public:
  cpu_stream(std::shared_ptr<device> owner, std::shared_ptr<cpu_thread> thread)
      : owner_(std::move(owner)), thread_(std::move(thread)) {
    thread_->run(
        [this] { ops_ = thread_->options().reference ? make_reference_backend(*owner_) : make_cpu_backend(*owner_); });
  }
  ~cpu_stream() override {
    thread_->run([this] { ops_.reset(); });
  }

  void post(work job, completion done) override { thread_->post(*ops_, std::move(job), std::move(done)); }
  const stream_options& options() const override { return thread_->options(); }
  const std::shared_ptr<cpu_thread>& thread() const { return thread_; }

private:
  std::shared_ptr<device> owner_;
  std::shared_ptr<cpu_thread> thread_;
  std::unique_ptr<backend> ops_; // made, used and let go on the thread
};

} // namespace

std::unique_ptr<stream> make_cpu_stream(std::shared_ptr<device> owner, const stream_options& options) {
  require_valid(options);
  return std::make_unique<cpu_stream>(std::move(owner), std::make_shared<cpu_thread>(options));
}

std::unique_ptr<stream> make_cpu_stream_beside(std::shared_ptr<device> owner, stream& other) {
  const auto* beside = dynamic_cast<const cpu_stream*>(&other);
  if (beside == nullptr) throw usage_error("a stream beside '" + other.options().name + "': that is none of the CPU");
  return std::make_unique<cpu_stream>(std::move(owner), beside->thread());
}

} // namespace penstock
