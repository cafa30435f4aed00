// 2BW's formulas, and the balanced partitions by dynamic programming over suffixes.
#include "planner/search/two_buffer_search.hpp"

#include "planner/search/state_chain.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace penstock::planner {

namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();
constexpr int most_states = 512;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

double compute_seconds(const stage_load& load, bool recompute, double microbatches_of_replica) {
  const auto forward = load.forward_seconds * (recompute ? 2 : 1);
  return forward + load.backward_seconds + load.accumulate_seconds * (1 - 1 / std::max(1.0, microbatches_of_replica));
}

// The whole stage in seconds of a micro-batch on its replica; what it pays for its neighbours is given.
double stage_seconds(const stage_cost& model, const stage_load& load, int width, bool recompute, const ring_cost& ring,
                     double communication) {
  const double share = double(model.request().microbatches) / width;
  const auto all_reduce = load.weight_bytes > 0 ? ring.seconds(load.weight_bytes) : 0;
  return std::max(compute_seconds(load, recompute, share) + communication, all_reduce / share);
}

// All depths for one width. Stages are counted from the end, so that neither devices nor in-flight counts depend on
// how many come before.
class width_search {
public:
  width_search(const stage_cost& model, const std::vector<int>& chain, int width, bool recompute)
      : model_(model), chain_(chain), width_(width), recompute_(recompute),
        depths_(std::min(model.on().device_count() / width, static_cast<int>(chain.size()) - 1)) {
    best_.assign(at(depths_ + 1) * chain.size(), infinity);
    next_.assign(best_.size(), -1);
    best_[chain.size() - 1] = 0;
    for (int k = 1; k <= depths_; ++k)
      add_stage(k);
  }

  int depths() const { return depths_; }
  bool fits(int depth) const { return best_[index(depth, 0)] < infinity; }

  candidate partition(int depth) const {
    candidate c{"2bw"};
    for (int k = depth, state = 0; k > 0; --k) {
      const auto to = next_[index(k, state)];
      c.stages.push_back(
          {chain_[at(state)], chain_[at(to)], devices_of(k), recompute_, model_.in_flight(width_, width_ * (k - 1))});
      state = to;
    }
    return c;
  }

private:
  std::size_t index(int k, int state) const { return at(k) * chain_.size() + at(state); }

  // Of the k-th stage from the end.
  std::vector<int> devices_of(int k) const {
    std::vector<int> devices(at(width_));
    std::iota(devices.begin(), devices.end(), model_.on().device_count() - k * width_);
    return devices;
  }

  void add_stage(int k) {
    const auto n = static_cast<int>(chain_.size());
    const auto devices = devices_of(k);
    const auto ring = model_.ring(devices);
    const auto k_s = model_.in_flight(width_, width_ * (k - 1));
    // A message to a neighbour takes its link alone; 0 where there is none.
    const auto after = k > 1 ? 2 * model_.link(devices, devices_of(k - 1)).seconds_per_byte : 0.0;
    const auto before = k < depths_ ? 2 * model_.link(devices_of(k + 1), devices).seconds_per_byte : 0.0;
    if (!model_.admits(width_, k_s)) return;
    for (int from = 0; from < n - 1; ++from)
      for (int to = from + 1; to < n; ++to) {
        const auto rest = best_[index(k - 1, to)];
        auto& best = best_[index(k, from)];
        if (rest >= best) continue;
        const auto load = model_.load(0, chain_[at(from)], chain_[at(to)], width_);
        // Only more of it from here on.
        if (compute_seconds(load, recompute_, 1) >= best) break;
        if (k_s > model_.most_in_flight(load, 0, {.recompute = recompute_})) continue;
        const auto communication = (from > 0 ? before * load.input_bytes : 0) + after * load.output_bytes;
        const auto here = std::max(rest, stage_seconds(model_, load, width_, recompute_, ring, communication));
        if (here < best) {
          best = here;
          next_[index(k, from)] = to;
        }
      }
  }

  const stage_cost& model_;
  const std::vector<int>& chain_;
  int width_;
  bool recompute_;
  int depths_;
  std::vector<double> best_; // [stages to the end][state]
  std::vector<int> next_;
};

// The shared model's steady state.
double model_seconds(const stage_cost& model, const candidate& c) {
  cost_terms total;
  for (std::size_t s = 0; s < c.stages.size(); ++s) {
    const auto& here = c.stages[s];
    const auto load = model.loads(0).between(here.from_state, here.to_state);
    total = total + model.stage(load, static_cast<int>(here.devices.size()), {.recompute = here.recompute},
                                model.ring(here.devices));
    if (s + 1 < c.stages.size())
      total = total + model.link(model.link(here.devices, c.stages[s + 1].devices), load.output_bytes);
  }
  return total.seconds();
}

} // namespace

double two_buffer_seconds(const stage_cost& model, const candidate& c) {
  double most = 0;
  const auto width = static_cast<int>(c.stages.front().devices.size());
  for (std::size_t s = 0; s < c.stages.size(); ++s) {
    const auto& here = c.stages[s];
    const auto load = model.loads(0).between(here.from_state, here.to_state);
    double communication = 0;
    if (s > 0)
      communication += 2 * load.input_bytes * model.link(c.stages[s - 1].devices, here.devices).seconds_per_byte;
    if (s + 1 < c.stages.size())
      communication += 2 * load.output_bytes * model.link(here.devices, c.stages[s + 1].devices).seconds_per_byte;
    most = std::max(most, stage_seconds(model, load, width, here.recompute, model.ring(here.devices), communication));
  }
  return most / width;
}

std::vector<candidate> search_two_buffer(const stage_cost& model) {
  const auto& request = model.request();
  if (request.charge != update_charge::every_minibatch)
    throw std::invalid_argument("2BW's planner was asked for another schedule, wanted an update every minibatch");
  if (model.on().devices.size() > 1) return {};
  const auto chain = longest_chain(model.graph(), model.loads(0), most_states);
  const auto devices = model.on().device_count();
  std::vector<candidate> found;
  std::vector<std::pair<double, std::size_t>> order;
  for (int width = 1; width <= devices; ++width) {
    if (request.use_all_devices && devices % width != 0) continue;
    std::vector<bool> done(at(devices / width + 1));
    for (const auto recompute : {false, true}) {
      if (recompute && !request.allow_recompute) continue;
      const width_search search(model, chain, width, recompute);
      for (int depth = 1; depth <= search.depths(); ++depth) {
        if (request.use_all_devices && width * depth != devices) continue;
        if (request.stages > 0 && depth != request.stages) continue;
        if (done[at(depth)] || !search.fits(depth)) continue;
        done[at(depth)] = true;
        found.push_back(search.partition(depth));
        found.back().seconds = model_seconds(model, found.back());
        order.emplace_back(two_buffer_seconds(model, found.back()), order.size());
      }
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<candidate> best;
  for (std::size_t i = 0; i < std::min(order.size(), request.top); ++i)
    best.push_back(std::move(found[order[i].second]));
  return best;
}

} // namespace penstock::planner
