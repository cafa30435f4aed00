// In-order work on one device, posted from any thread.
#pragma once

#include "kernels/device.hpp"

#include <exception>
#include <functional>
#include <future>

namespace penstock {

class backend;

/// Runs posted work one piece after another, in the order posted: on the CPU on a thread of its own, pinned, with its
/// own oneDNN thread budget; on a GPU in a CUDA stream. Destroying a stream finishes what was posted.
class stream {
public:
  using work = std::function<void(backend&)>;
  /// Called on the stream's thread after the work is done *and destroyed* (so that what it held is free); carries what
  /// the work threw, or null. It must not throw.
  using completion = std::function<void(std::exception_ptr)>;

  virtual ~stream() = default;
  virtual void post(work job, completion done) = 0;
  virtual const stream_options& options() const = 0;

  /// Posts the work; the future ends with it and carries what it threw.
  std::future<void> start(work job);
  /// Posts the work and waits for it; rethrows what it threw. Not from the stream's own thread.
  void run(work job);
};

} // namespace penstock
