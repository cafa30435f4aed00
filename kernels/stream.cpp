// Waiting for one piece of work.
#include "kernels/stream.hpp"

#include <future>
#include <memory>

namespace penstock {

void stream::run(work job) {
  // Shared: the waiter may be gone before set_value has returned on the stream's thread.
  auto done = std::make_shared<std::promise<void>>();
  auto waited = done->get_future();
  post(std::move(job), [done](std::exception_ptr failure) {
    if (failure)
      done->set_exception(failure);
    else
      done->set_value();
  });
  waited.get();
}

} // namespace penstock
