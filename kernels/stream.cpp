// Waiting for one piece of work.
#include "kernels/stream.hpp"

#include <memory>

namespace penstock {

std::future<void> stream::start(work job) {
  // Shared: the waiter may be gone before set_value has returned on the stream's thread.
  auto done = std::make_shared<std::promise<void>>();
  auto ends = done->get_future();
  post(std::move(job), [done](std::exception_ptr failure) {
    if (failure)
      done->set_exception(failure);
    else
      done->set_value();
  });
  return ends;
}

void stream::run(work job) {
  start(std::move(job)).get();
}

} // namespace penstock
