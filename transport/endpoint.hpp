// Bytes between the ranks of a job. Every way of moving them (in one process, UCX, NCCL) is an endpoint.
#pragma once

#include "kernels/memory_pool.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::transport {

/// Names who takes a message on the other side. Its meaning is the users' business; both sides compute the same.
enum class channel : std::uint64_t {};

/// Some bytes of a buffer. The handle keeps them alive: nothing is copied on our side.
struct part {
  buffer storage;
  std::size_t offset = 0;
  std::size_t size = 0;
  std::byte* data() const { return storage.data() + offset; }
};

inline constexpr std::size_t max_header_bytes = 2048;

/// A header that only sender and receiver understand, and any number of parts of any size. Each message describes
/// itself; messages of one sender may overtake each other, so receivers match by what the header says.
struct message {
  std::string header; ///< at most max_header_bytes
  std::vector<part> parts;
};

/// Takes the messages of one channel. Both functions are called on the network's thread, one at a time for each
/// endpoint, and must not block.
class receiver {
public:
  virtual ~receiver() = default;
  /// Where part `index` of a message that has just been announced shall go: exactly `bytes` bytes. What it throws fails
  /// the connection.
  virtual part place(int peer, std::string_view header, std::size_t index, std::size_t bytes) = 0;
  /// The message is complete: its parts are the ones that place() gave.
  virtual void take(int peer, message m) = 0;
};

struct traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0; ///< headers and parts, without what lower layers add
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;
};

/// One rank's connections to all others. All functions may be called from any thread.
class endpoint {
public:
  /// Called once on the network's thread, at the latest while the endpoint is destroyed: the parts may be overwritten
  /// now, or why they never will be sent. What it throws fails the connection.
  using completion = std::function<void(std::exception_ptr)>;
  /// Called on the network's thread, at most once for each peer: what happened to its connection.
  using failure_handler = std::function<void(int peer, const std::string& what)>;

  virtual ~endpoint() = default; ///< drops whatever is not yet sent
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Posts a message to another rank. Throws std::logic_error for a rank that there is not, this one, or a header that
  /// is too long; what fails later goes to `sent`, and to the failure handler.
  virtual void send(int peer, channel to, message m, completion sent = {}) = 0;

  /// From now on `taker` takes the channel's messages, those that came before included. null: they are held again.
  virtual void listen(channel from, std::shared_ptr<receiver> taker) = 0;

  virtual void on_failure(failure_handler handler) = 0;

  /// Waits until all that was posted is sent; not from the network's thread. Throws penstock::error when the deadline
  /// passes, or when something posted was dropped because its peer is lost.
  virtual void flush(std::chrono::milliseconds deadline) = 0;

  virtual traffic traffic_with(int peer) const = 0;
  /// How the bytes travel, for the log: "shared memory (posix, cma)", "tcp over eth0".
  virtual std::string route_to(int peer) const = 0;
  /// Messages that no rank of this job can have sent; they were dropped.
  virtual std::uint64_t refused() const { return 0; }
};

} // namespace penstock::transport
