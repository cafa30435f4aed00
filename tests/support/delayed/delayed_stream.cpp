// Posted work, from where it asks to where the device has finished it.
#include "tests/support/delayed/delayed_stream.hpp"

#include "kernels/check.hpp"
#include "tests/support/delayed/counters.hpp"
#include "tests/support/delayed/delayed_backend.hpp"
#include "tests/support/delayed/delayed_memory.hpp"
#include "tests/support/delayed/device_queue.hpp"
#include "tests/support/delayed/issuing_thread.hpp"

#include <utility>

namespace penstock::testing {

namespace {

/// What streams beside each other share.
struct two_threads {
  two_threads(const stream_options& o, std::uint64_t seed)
      : options(o), computes(std::make_shared<device_queue>(seed)), asks(o.name) {}
  stream_options options;
  std::shared_ptr<device_queue> computes; // ends after the one that asks
  issuing_thread asks;
};

class delayed_stream final : public stream {
public:
  delayed_stream(std::shared_ptr<device> owner, delayed_memory& memory, std::shared_ptr<two_threads> threads,
                 const delayed_options& how)
      : owner_(std::move(owner)), threads_(std::move(threads)), how_(how),
        ops_(*owner_, memory, *threads_->computes, how) {
    memory.belong_to(threads_->computes);
  }
  ~delayed_stream() override {
    threads_->asks.wait_until_done();
    threads_->computes->wait_until_done();
  }

  void post(work job, completion done) override {
    threads_->asks.put(
        [this, job = std::move(job), done = std::move(done)]() mutable { issue(std::move(job), std::move(done)); });
  }
  const stream_options& options() const override { return threads_->options; }
  const std::shared_ptr<two_threads>& threads() const { return threads_; }

private:
  void issue(work job, completion done) {
    const auto asked = ops_.begin();
    std::exception_ptr failure;
    try {
      job(ops_);
    } catch (...) {
      failure = std::current_exception();
    }
    ops_.end();
    if (!how_.completes_when_finished) {
      job = nullptr;
      if (done) std::exchange(done, nullptr)(failure);
    }
    threads_->computes->put([asked, failure, job = std::move(job), done = std::move(done)]() mutable {
      job = nullptr; // gone before the completion, and with it the tensors it held
      asked->kept.clear();
      ++counted().works;
      if (done) done(asked->failure ? asked->failure : failure);
    });
  }

  std::shared_ptr<device> owner_;
  std::shared_ptr<two_threads> threads_;
  delayed_options how_;
  delayed_backend ops_;
};

void require_threads(const stream_options& options) {
  if (options.threads < 1)
    throw usage_error("stream '" + options.name + "': " + std::to_string(options.threads) +
                      " compute threads, at least 1 wanted");
}

} // namespace

std::unique_ptr<stream> make_delayed_stream(std::shared_ptr<device> owner, delayed_memory& memory,
                                            const stream_options& options, const delayed_options& how) {
  require_threads(options);
  return std::make_unique<delayed_stream>(std::move(owner), memory, std::make_shared<two_threads>(options, how.seed),
                                          how);
}

std::unique_ptr<stream> make_delayed_stream_beside(std::shared_ptr<device> owner, delayed_memory& memory, stream& other,
                                                   const delayed_options& how) {
  const auto* beside = dynamic_cast<const delayed_stream*>(&other);
  if (beside == nullptr)
    throw usage_error("a stream beside '" + other.options().name + "': that is none of a delayed device");
  return std::make_unique<delayed_stream>(std::move(owner), memory, beside->threads(), how);
}

} // namespace penstock::testing
