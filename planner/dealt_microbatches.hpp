// The micro-batches that one replica of a stage gets, in turn by the running number (DESIGN section 2 rule 3).
#pragma once

#include "planner/schedule.hpp"

#include <cstdint>

namespace penstock::planner {

class dealt_microbatches {
public:
  /// A place among them: how many are past, and which is next.
  struct turn {
    std::int64_t past = 0;
    std::int64_t minibatch = 0;
    std::int64_t microbatch = 0;
  };

  dealt_microbatches(const schedule& s, int stage, int replica)
      : microbatches_(s.microbatches), replicas_(s.stages[static_cast<std::size_t>(stage)].replicas), replica_(replica),
        skipped_minibatches_(replicas_ / microbatches_), skipped_microbatches_(replicas_ % microbatches_) {}

  turn first() const { return {0, replica_ / microbatches_, replica_ % microbatches_}; }
  void pass(turn& t) const { // without a division: this runs for every action of a simulation
    ++t.past;
    t.minibatch += skipped_minibatches_;
    t.microbatch += skipped_microbatches_;
    if (t.microbatch < microbatches_) return;
    t.microbatch -= microbatches_;
    ++t.minibatch;
  }
  /// Those of the first minibatches.
  std::int64_t among_first(std::int64_t minibatches) const {
    const auto all = minibatches * microbatches_;
    return all > replica_ ? (all - replica_ + replicas_ - 1) / replicas_ : 0;
  }
  /// Whether minibatch `origin` is dealt from the first replica on, as minibatch 0 is.
  bool deals_anew_at(std::int64_t origin) const { return origin * microbatches_ % replicas_ == 0; }
  std::int64_t replicas() const { return replicas_; }

private:
  std::int64_t microbatches_, replicas_, replica_;
  std::int64_t skipped_minibatches_, skipped_microbatches_; // from one of them to the next
};

} // namespace penstock::planner
