// The search of stages on devices that are not there, dealt out to those that are.
#include "planner/explore/interleaved_proposals.hpp"

#include "planner/explore/pinned_search.hpp"

#include <algorithm>

namespace penstock::planner {

namespace {

constexpr int most_chunks_tried = 4;
// The searches' time grows with the stages and with the square of the places to cut.
constexpr int few_devices = 8, most_devices = 64, most_states = 512, most_stages = 24;

struct interleaving {
  int positions = 1;
  int chunks = 1;
  int replicas = 1;
};

std::vector<int> chunk_counts(const pins& fixed, int devices) {
  if (fixed.chunks > 0) return {fixed.chunks};
  if (devices > few_devices) return {2};
  std::vector<int> counts;
  for (int v = 2; v <= most_chunks_tried; ++v)
    counts.push_back(v);
  return counts;
}

bool is_tried(const pins& fixed, int positions, int replicas, int devices) {
  if (fixed.stages > 0 && positions != fixed.stages) return false;
  if (!fixed.replicas.empty()) return replicas == fixed.replicas.front();
  return positions * replicas == devices || fixed.stages > 0; // fewer devices are explored by themselves
}

/// Where a position has fewer micro-batches than there are positions, chunks fill little of what lies idle: then it is
/// tried only where it is asked for.
bool is_worth_it(const pins& fixed, const interleaving& shape, int microbatches) {
  if (fixed.chosen_schedules) return true;
  return shape.positions * shape.chunks <= most_stages && microbatches >= shape.positions * shape.replicas;
}

std::vector<interleaving> shapes_of(const exploration& e, const pins& fixed, int devices, int microbatches) {
  std::vector<interleaving> shapes;
  const auto stages = e.graph.states() - 1;
  for (const int v : chunk_counts(fixed, devices))
    for (int n = fixed.stages > 0 ? 1 : 2; n <= devices && n * v <= stages; ++n)
      for (int r = 1; r * n <= devices; ++r)
        if (is_tried(fixed, n, r, devices) && is_worth_it(fixed, {n, v, r}, microbatches)) shapes.push_back({n, v, r});
  return shapes;
}

/// A minibatch: every position's share one after another, and n - 1 chunks that fill and empty the pipeline.
double step_seconds(const stage_cost& model, const candidate& what, const interleaving& shape) {
  std::vector<double> of_position(static_cast<std::size_t>(shape.positions));
  double slowest = 0;
  for (std::size_t s = 0; s < what.stages.size(); ++s) {
    const auto& stage = what.stages[s];
    const auto load = model.loads(0).between(stage.from_state, stage.to_state);
    const auto seconds = model.stage(load, shape.replicas, {.recompute = stage.recompute}, {}).sum;
    of_position[s % of_position.size()] += seconds;
    slowest = std::max(slowest, seconds);
  }
  const auto share = (model.request().microbatches + shape.replicas - 1) / shape.replicas;
  return share * *std::max_element(of_position.begin(), of_position.end()) + (shape.positions - 1) * slowest;
}

} // namespace

std::vector<proposal> propose_interleaved(const exploration& e, const pins& fixed, const setting& how, const cluster& c,
                                          const std::vector<int>& cuts) {
  std::vector<proposal> all;
  if (c.devices.size() != 1 || e.graph.states() > most_states) return all;
  const bool has_limit = c.devices.front().memory_bytes > 0;
  for (const auto& shape : shapes_of(e, fixed, std::min(c.device_count(), most_devices), how.search.microbatches)) {
    const auto stages = static_cast<std::size_t>(shape.positions) * static_cast<std::size_t>(shape.chunks);
    if (!cuts.empty() && cuts.size() + 1 != stages) continue;
    cluster spread = c; // a device for every chunk, all joined by the outermost link
    spread.devices.front().memory_bytes = 0;
    spread.devices.front().count = static_cast<int>(stages) * shape.replicas;
    auto joining = c.levels.back();
    joining.group = spread.devices.front().count;
    spread.levels = {joining};
    auto request = how.search;
    request.allow_recompute = false;
    request.stages = 0;
    request.top = 2;
    const stage_cost model(e.model, e.graph, spread, request);
    for (auto& what : search_pinned(model, {cuts, std::vector<int>(stages, shape.replicas)})) {
      what.origin = "interleaved";
      what.chunks = shape.chunks;
      for (std::size_t s = 0; s < stages; ++s)
        for (int r = 0; r < shape.replicas; ++r)
          what.stages[s].devices[static_cast<std::size_t>(r)] =
              static_cast<int>(s % static_cast<std::size_t>(shape.positions)) * shape.replicas + r;
      const auto add = [&] { all.push_back({how, what, step_seconds(model, what, shape)}); };
      add();
      if (!has_limit || !how.search.allow_recompute) continue;
      for (auto& stage : what.stages)
        stage.recompute = true;
      add();
    }
  }
  return all;
}

} // namespace penstock::planner
