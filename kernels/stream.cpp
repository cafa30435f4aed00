// Waiting for one piece of work.
#include "kernels/stream.hpp"

#include <future>

namespace penstock {

void stream::run(work job) {
  std::promise<void> done;
  auto waited = done.get_future();
  post(std::move(job), [&done](std::exception_ptr failure) {
    if (failure)
      done.set_exception(failure);
    else
      done.set_value();
  });
  waited.get();
}

} // namespace penstock
