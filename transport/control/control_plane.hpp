// What ranks tell each other besides tensors: who is there, what failed first, small blobs by name.
#pragma once

#include "kernels/check.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::transport {

using namespace std::chrono_literals;

struct member {
  std::string host;          ///< name, for messages
  std::string host_identity; ///< ranks with the same one share memory and a clock
  std::int64_t process = 0;
};

/// Why the job ends: the first cause, the same for all ranks.
struct job_failure {
  int rank = -1;              ///< whose failure it is
  bool lost = false;          ///< the rank is gone or silent; else it reported by itself
  std::string text;           ///< one line that names rank, host and what it was doing
  std::vector<int> also_lost; ///< ranks known to be lost at the same moment; text may not name them
};

/// What a wait on the control plane throws when the job has failed; what() is the cause's text.
class job_failed : public error {
public:
  explicit job_failed(job_failure cause) : error(cause.text), cause_(std::move(cause)) {}
  const job_failure& cause() const { return cause_; }

private:
  job_failure cause_;
};

/// One rank's line to all others, by way of rank 0. All functions may be called from any thread. Those that wait throw
/// job_failed with the first cause as soon as the job has failed, and penstock::error when their deadline passes.
class control_plane {
public:
  using message_handler = std::function<void(int from, std::string_view payload)>;
  using failure_handler = std::function<void(const job_failure&)>;

  /// Not on the network's thread. Without leave() before, the others see a rank that died. No handler is called after.
  virtual ~control_plane() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::vector<member>& members() const = 0;

  /// Everybody's blob under that name, by rank. Each rank calls it once for a name; a name is not used twice.
  virtual std::vector<std::string> all_gather(std::string_view name, std::string_view blob,
                                              std::chrono::milliseconds deadline) = 0;
  /// Rank 0's blob; what the others pass is of no account.
  virtual std::string broadcast(std::string_view name, std::string_view blob, std::chrono::milliseconds deadline) = 0;

  /// Posts a message; those of one sender to one receiver and topic keep their order. To oneself is allowed.
  virtual void send(int to, std::string_view topic, std::string_view payload) = 0;
  /// Takes a topic's messages, those that came before included, one at a time on the network's thread. The handler must
  /// not block and may still be running when another has taken its place; an empty one: they are held again.
  virtual void on_message(std::string_view topic, message_handler handler) = 0;

  /// What this rank is doing, for the message that says so when it is lost. Cheap; only the last one counts.
  virtual void doing(std::string_view what) = 0;
  /// This rank cannot go on. The first cause of all ranks becomes the job's; later ones are dropped.
  virtual void fail(std::string_view what) = 0;
  /// A suspicion: the data connection to `peer` broke. Blames the peer unless something better is known soon.
  virtual void suspect(int peer, std::string_view what) = 0;
  virtual std::optional<job_failure> failure() const = 0;
  /// Called once on the network's thread when the job fails; at once when it has.
  virtual void on_failure(failure_handler handler) = 0;

  /// This host's addresses by which its control connections go to other hosts: of rank 0 those of all ranks, of others
  /// the one to rank 0; none where they stay on this host.
  virtual std::vector<std::string> ways_out() const { return {}; }

  /// Nanoseconds to add to this rank's steady clock to get rank 0's; 0 on the same host.
  virtual std::int64_t clock_offset_ns() const = 0;

  /// The job is over in order: waits until all ranks say so, or the deadline passes.
  virtual void leave(std::chrono::milliseconds deadline) = 0;
};

} // namespace penstock::transport
