// Many ranks, one result: all-reduce among the replicas of a stage, gather and broadcast of tensors' bytes.
#pragma once

#include "transport/endpoint.hpp"

#include <functional>

namespace penstock::transport {

/// Members of a group, each on a rank; a rank may hold several. Sums are formed in member order, whatever the timing.
struct group {
  std::vector<int> rank_of; ///< by member
};

/// Adds the elements in `bytes` bytes at `from` onto those at `onto`. Passed in, so that this floor knows no number
/// types.
using add_elements = std::function<void(std::byte* onto, const std::byte* from, std::size_t bytes)>;

/// All-reduce among a group: every rank of it owns a share of each bucket, receives the others' contributions to its
/// share, adds them in member order, and sends the sum to all. Bytes on the wire as in a ring (2 (R-1)/R of the bucket
/// a rank); the same bits for any timing, bucket size and number of ranks. Buckets may be started in any order, also
/// before other ranks start theirs; several are in flight at once.
class all_reduce {
public:
  /// Called once on a thread of the all-reduce's own: the sum stands in `result`'s parts and the buffers are free
  /// again, or why that will never be. It must not throw or block; it may start buckets and destroy the all-reduce.
  using completion = std::function<void(std::exception_ptr)>;

  /// `base` and the next channels up to base + 1 are this group's alone. The endpoint must outlive it. Throws
  /// std::logic_error when this rank holds no member.
  all_reduce(endpoint& data, group members, channel base, add_elements add, std::size_t element_bytes);
  /// Drops the buckets in flight: afterwards no completion is called any more, nor is another one running.
  ~all_reduce();
  all_reduce(const all_reduce&) = delete;
  all_reduce& operator=(const all_reduce&) = delete;

  /// From any thread. Starts bucket `key` (the same on all ranks; free again when its completion is called).
  /// `contributions`: one list of parts for each member that this rank holds, in member order, or an empty list for a
  /// member that contributes nothing; the lists that are not empty have parts of the same sizes, on all ranks.
  /// The sum over the members that contribute, in member order (a first contribution is copied, not added to zero), is
  /// written to `result`, parts of the same sizes, which may be the first contribution's own. When no member
  /// contributes, `result` is left as it is. Parts hold whole elements. The first failure (a send that fails, ranks
  /// that disagree about a bucket) ends all buckets, later ones included. Whether a peer that sends nothing is lost,
  /// the endpoint's failure handler knows.
  void start(std::uint64_t key, std::vector<std::vector<part>> contributions, std::vector<part> result,
             completion done);

  /// Drops every bucket with a smaller key, started or only announced by others, without calling its completion: a
  /// drain cut off what it was for. Nothing with such a key is started afterwards, and what still arrives is ignored.
  void forget_below(std::uint64_t key);

private:
  struct implementation;
  std::shared_ptr<implementation> self_;
};

/// Blocking transfers of bytes between drains, for start-up and checkpoints. One call at a time; every rank of the job
/// calls the same ones in the same order. Throws penstock::error when the deadline passes.
class transfers {
public:
  /// `base` and the next channels, as many as there are ranks, are for this object alone.
  transfers(endpoint& data, channel base);
  ~transfers();
  transfers(const transfers&) = delete;
  transfers& operator=(const transfers&) = delete;

  /// Sends to one rank and waits until the bytes may be overwritten: until the other receives, when they are many.
  /// The header may have max_header_bytes - 8 bytes.
  void send(int to, message m, std::chrono::milliseconds deadline);
  /// Next message from that rank, in the order sent; its parts come from `pool` (those of one that overtook another
  /// may come from the pool of the call before, or one of this object's own).
  message receive(int from, memory_pool& pool, std::chrono::milliseconds deadline);

  /// The job is over: whoever waits in send or receive, now or later, gets penstock::error with that text. Any thread.
  void cancel(const std::string& why);

private:
  struct implementation;
  std::shared_ptr<implementation> self_;
};

} // namespace penstock::transport
