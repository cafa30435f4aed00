// Gathers the gradients of a stage's replicas for each update and has them summed, in replica order.
#pragma once

#include "actors/optimizer/bucket_cuts.hpp"
#include "actors/stage/messages.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace penstock::actors {

/// Replicas of one process: sum on the update's stream, into the first that has any.
struct sum_replicas {
  std::vector<gradients_ptr> gradients; ///< by replica
  gradients_ptr sum;                    ///< takes it
};
/// Replicas on several ranks: an all-reduce of one bucket. Comes back to gradient_reducer::reduced.
struct reduce_bucket {
  std::int64_t stretch = 0;
  std::int64_t group = 0;
  std::size_t bucket = 0;
  bool counts = false;                                       ///< the members that take part are summed with it
  std::vector<std::optional<std::vector<tensor>>> gradients; ///< by replica here; none: takes no part
};
/// What the updates of a stretch before had begun is of no use to anybody.
struct forget_reductions_before {
  std::int64_t stretch = 0;
};
using reducer_effect = std::variant<sum_replicas, reduce_bucket, forget_reductions_before>;

/// The answer to reduce_bucket.
struct reduced_msg {
  std::int64_t stretch = 0;
  std::int64_t group = 0;
  std::size_t bucket = 0;
  std::int64_t members = 0;      ///< that took part, where it counts
  std::vector<tensor> gradients; ///< of the bucket's parameters
};

/// One update's gradients, summed by what the update's stream has been given by then.
struct gradient_sum {
  std::int64_t group = 0;
  std::int64_t minibatches = 0;
  std::int64_t holds_from = gradient_share_msg::holds_none; ///< the least of the replicas here
  gradients_ptr gradients;
};

/// Of one stage on one rank. A replica without a minibatch of its own may reach an update that a drain then cuts off:
/// its share is forgotten when the next stretch begins.
class gradient_reducer {
public:
  using effects = std::vector<reducer_effect>;
  virtual ~gradient_reducer() = default;
  virtual effects begin(std::int64_t stretch) = 0;
  virtual effects take(gradient_share_msg m) = 0;
  virtual effects take(gradient_bucket_msg m) = 0;
  virtual effects reduced(reduced_msg m) = 0;
  /// The sum of that update, once, when it is complete.
  virtual std::optional<gradient_sum> take_sum(std::int64_t group) = 0;
  /// "sums update 3: ..."; empty when nothing is under way.
  virtual std::string describe() const = 0;
};

/// All replicas are in this process; one alone is its own sum.
std::unique_ptr<gradient_reducer> make_local_reducer(int replicas);

/// Replicas on several ranks, those of `local` here: every bucket goes as soon as all replicas here have it, or have
/// nothing for it.
std::unique_ptr<gradient_reducer> make_rank_reducer(std::vector<int> local, std::size_t parameters, bucket_cuts plan);

} // namespace penstock::actors
