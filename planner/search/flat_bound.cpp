// Sums of the fastest layers, and what so many devices make of them.
#include "planner/search/flat_bound.hpp"

#include <algorithm>
#include <limits>

namespace penstock::planner {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

} // namespace

flat_bound::flat_bound(const stage_cost& model) : request_(model.request()) {
  const auto& graph = model.graph();
  std::vector<double> fastest(static_cast<std::size_t>(graph.layers()), infinity);
  for (std::size_t layer = 0; layer < fastest.size(); ++layer)
    for (std::size_t t = 0; t < model.on().devices.size(); ++t)
      fastest[layer] =
          std::min(fastest[layer], model.loads(static_cast<int>(t)).layer_seconds(static_cast<int>(layer)));
  for (int state = 0; state < graph.states(); ++state) {
    double seconds = 0;
    for (std::size_t layer = 0; layer < fastest.size(); ++layer)
      if (graph.is_done(state, static_cast<int>(layer))) seconds += fastest[layer];
    done_.push_back(seconds);
  }
  onward_ = done_;
  for (auto i = onward_.size() - 1; i-- > 0;)
    onward_[i] = std::min(onward_[i], onward_[i + 1]);
}

cost_terms flat_bound::terms(double seconds, int devices) const {
  if (devices < 1) return {.most = seconds > 0 ? infinity : 0};
  if (request_.charge != update_charge::flush) return {.most = seconds / devices};
  // With x the largest of (M / R - 1) c, all of c is at most the sum of x R / (M - R), and for n devices in all that is
  // at most x n / (M - n).
  const double batch = request_.microbatches;
  return {.sum = seconds, .most = batch > devices ? seconds * (batch - devices) / devices : 0};
}

int flat_bound::end_of_stage(int state, int replicas, double seconds) const {
  // Of a stage's c, at least a share counts: 1 / R, or every round of a flush.
  const auto m = request_.microbatches;
  const double share = request_.charge == update_charge::flush ? (m + replicas - 1) / replicas : 1.0 / replicas;
  // Sums over other orders may differ in their last bits.
  const auto most = (done_[static_cast<std::size_t>(state)] + seconds / share) * (1 + 1e-12);
  return static_cast<int>(std::upper_bound(onward_.begin(), onward_.end(), most) - onward_.begin());
}

} // namespace penstock::planner
