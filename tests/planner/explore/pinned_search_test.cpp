// The pinned search against every partition of the given shape.
#include "planner/explore/pinned_search.hpp"
#include "tests/planner/explore/profiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace penstock::planner::testing {
namespace {

/// Costs of every partition with these cuts (or any) and these replicas (or any), devices in order of their types.
class exhaustive {
public:
  exhaustive(const stage_cost& model, const fixed_shape& shape, std::size_t stages)
      : model_(model), shape_(shape), stages_(stages), used_(model.on().devices.size(), 0) {}

  double least() {
    add_stage(0);
    return least_;
  }

private:
  void add_stage(int state) {
    const auto last = model_.graph().states() - 1;
    const auto s = now_.stages.size();
    if (s == stages_) {
      auto c = now_;
      if (state == last && model_.complete(c)) least_ = std::min(least_, c.seconds);
      return;
    }
    for (auto to = state + 1; to <= last; ++to) {
      if (!shape_.cuts.empty() && s + 1 < stages_ && shape_.cuts[s] != to) continue;
      int first = 0;
      for (std::size_t t = 0; t < used_.size(); first += model_.on().devices[t++].count)
        for (int r = 1; used_[t] + r <= model_.on().devices[t].count; ++r) {
          if (!shape_.replicas.empty() && shape_.replicas[s] != r) continue;
          std::vector<int> devices(static_cast<std::size_t>(r));
          std::iota(devices.begin(), devices.end(), first + used_[t]);
          now_.stages.push_back({.from_state = state, .to_state = to, .devices = devices});
          used_[t] += r;
          add_stage(to);
          used_[t] -= r;
          now_.stages.pop_back();
        }
    }
  }

  const stage_cost& model_;
  const fixed_shape& shape_;
  std::size_t stages_;
  std::vector<int> used_;
  candidate now_;
  double least_ = INFINITY;
};

struct instance {
  profile model;
  cluster machines;
  search_request request;
  fixed_shape shape;
  std::size_t stages = 1;
};

instance random_instance(std::mt19937& random) {
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  const auto real = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  instance i;
  std::vector<layer_of> layers;
  for (int l = 0; l < pick(4, 6); ++l)
    layers.push_back({"layer" + std::to_string(l), real(0.1, 1), real(0, 1e8), real(0, 1e8)});
  i.model = chain_of(layers, 1, 1e6);
  i.machines = flat_cluster(pick(3, 5), real(1e8, 1e9), pick(0, 1) * 1e-3);
  if (pick(0, 1) == 1) {
    auto other = i.machines.devices.front();
    i.machines.devices.front().count -= 1;
    other.name = "slow";
    other.speed = 0.5;
    other.count = 1;
    i.machines.devices.push_back(other);
  }
  if (pick(0, 2) == 0)
    for (auto& type : i.machines.devices)
      type.memory_bytes = real(5e8, 1.5e9);
  i.request.charge = std::array{update_charge::every_group, update_charge::every_minibatch,
                                update_charge::flush}[static_cast<std::size_t>(pick(0, 2))];
  i.request.microbatches = i.request.charge == update_charge::every_group ? 1 : pick(1, 8);
  i.request.memory.versions_follow_in_flight = i.request.charge == update_charge::every_group;
  i.request.allow_recompute = pick(0, 1) == 1;
  i.stages = static_cast<std::size_t>(pick(2, 3));
  const auto pinned = pick(0, 2);
  if (pinned != 0) i.shape.cuts = i.stages == 2 ? std::vector{pick(1, 3)} : std::vector{pick(1, 2), 3};
  if (pinned != 1) i.shape.replicas.assign(i.stages, 1);
  if (pinned != 1) i.shape.replicas[static_cast<std::size_t>(pick(0, static_cast<int>(i.stages) - 1))] = pick(1, 2);
  return i;
}

TEST(PinnedSearch, IsNeverWorseThanEveryPartitionOfItsShape) {
  std::mt19937 random(77);
  int feasible = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const auto i = random_instance(random);
    const layer_graph graph(i.model);
    const stage_cost model(i.model, graph, i.machines, i.request);
    const auto found = search_pinned(model, i.shape);
    const auto least = exhaustive(model, i.shape, i.stages).least();
    ASSERT_EQ(found.empty(), std::isinf(least)) << "trial " << trial;
    if (found.empty()) continue;
    ++feasible;
    EXPECT_NEAR(found.front().seconds, least, 1e-12 * least) << "trial " << trial;
    for (const auto& c : found) {
      EXPECT_EQ(c.origin, "given");
      ASSERT_EQ(c.stages.size(), i.stages);
      for (std::size_t s = 0; s < i.stages; ++s) {
        if (!i.shape.replicas.empty()) {
          EXPECT_EQ(c.stages[s].devices.size(), static_cast<std::size_t>(i.shape.replicas[s]));
        }
        if (!i.shape.cuts.empty() && s > 0) {
          EXPECT_EQ(c.stages[s].from_state, i.shape.cuts[s - 1]);
        }
      }
    }
  }
  EXPECT_GT(feasible, 200);
}

TEST(PinnedSearch, OffersEveryGoodCutOfTwoStages) {
  const auto p = chain_of({{"a"}, {"b"}, {"c"}, {"d"}, {"e"}});
  const layer_graph graph(p);
  const auto c = flat_cluster(2, 1e9);
  const search_request request;
  const stage_cost model(p, graph, c, request);
  EXPECT_EQ(search_pinned(model, {.cuts = {}, .replicas = {1, 1}}).size(), 4U);
}

} // namespace
} // namespace penstock::planner::testing
