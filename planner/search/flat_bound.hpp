// What a partition costs at least, from its layers and the number of its devices alone.
#pragma once

#include "planner/search/stage_cost.hpp"

#include <vector>

namespace penstock::planner {

/// Perfect balance, nothing sent, each layer on the type that is fastest for it.
class flat_bound {
public:
  explicit flat_bound(const stage_cost& model);
  /// The terms of any partition of the layers done at a state, and of those not done, over so many devices.
  cost_terms before(int state, int devices) const { return terms(done_[static_cast<std::size_t>(state)], devices); }
  cost_terms after(int state, int devices) const {
    return terms(done_.back() - done_[static_cast<std::size_t>(state)], devices);
  }
  /// One more than the last state at which a stage from `state` on so many replicas may end and cost no more.
  int end_of_stage(int state, int replicas, double seconds) const;

private:
  cost_terms terms(double seconds, int devices) const;

  const search_request& request_;
  std::vector<double> done_;   // per state: forward and backward of its layers
  std::vector<double> onward_; // least of done_ from a state on
};

} // namespace penstock::planner
