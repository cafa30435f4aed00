// The flat search against every partition there is, and against the published example.
#include "planner/search/flat_search.hpp"
#include "tests/planner/search/brute_force.hpp"
#include "tests/planner/search/published_profiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace penstock::planner::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using shape = std::vector<std::pair<int, std::vector<int>>>; // of every stage, where it ends and on what

shape shape_of(const candidate& c) {
  shape of;
  for (const auto& s : c.stages)
    of.emplace_back(s.to_state, s.devices);
  return of;
}

bool are_close(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-12 * std::max(std::abs(a), std::abs(b));
}

void expect_sound(const std::vector<candidate>& found, const stage_cost& model) {
  std::set<shape> shapes;
  for (const auto& c : found) {
    EXPECT_TRUE(shapes.insert(shape_of(c)).second) << "the same partition twice";
    auto again = c;
    for (auto& s : again.stages)
      s.in_flight = 0, s.recompute = false, s.update_lag = 0;
    EXPECT_TRUE(model.complete(again));
    EXPECT_EQ(again.seconds, c.seconds);
    EXPECT_EQ(c.stages.front().from_state, 0);
    EXPECT_EQ(c.stages.back().to_state, model.graph().states() - 1);
    const auto most = std::max_element(c.stages.begin(), c.stages.end(), [](const auto& a, const auto& b) {
                        return a.devices.size() < b.devices.size();
                      })->devices.size();
    EXPECT_EQ(c.origin, c.stages.size() == 1 && most > 1 ? "data-parallel" : most == 1 ? "straight" : "flat");
    for (std::size_t s = 0; s < c.stages.size(); ++s) {
      EXPECT_EQ(c.stages[s].in_flight, again.stages[s].in_flight);
      EXPECT_EQ(c.stages[s].recompute, again.stages[s].recompute);
      EXPECT_EQ(c.stages[s].update_lag, again.stages[s].update_lag);
    }
  }
  EXPECT_TRUE(
      std::is_sorted(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; }));
  EXPECT_LE(found.size(), model.request().top);
}

struct exhaustive {
  double best = infinity;
  double least_excess = infinity;
  std::map<shape, double> feasible;
};

exhaustive search_all(const stage_cost& model) {
  exhaustive all;
  for_each_partition(model, [&](const candidate& c) {
    if (c.seconds < infinity) all.feasible.emplace(shape_of(c), c.seconds);
    all.best = std::min(all.best, c.seconds);
    int downstream = 0;
    bool is_admitted = true;
    for (auto s = c.stages.rbegin(); s != c.stages.rend(); ++s) {
      const auto replicas = static_cast<int>(s->devices.size());
      is_admitted = is_admitted && model.admits(replicas, model.in_flight(replicas, downstream));
      downstream += replicas;
    }
    if (is_admitted) all.least_excess = std::min(all.least_excess, model.excess_bytes(c));
  });
  return all;
}

void expect_best(const search_instance& i) {
  const layer_graph graph(i.model, i.together);
  const stage_cost model(i.model, graph, i.on, i.request);
  const auto found = search_flat(model);
  const auto all = search_all(model);
  expect_sound(found, model);
  ASSERT_EQ(found.empty(), all.feasible.empty());
  if (!found.empty()) {
    EXPECT_PRED2(are_close, found.front().seconds, all.best);
  }
  EXPECT_PRED2(are_close, least_excess_bytes(model), all.least_excess);
}

TEST(FlatSearch, EqualsBruteForceOnBranchingGraphs) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    expect_best(random_instance(seed));
  }
}

TEST(FlatSearch, EqualsBruteForceOnChains) {
  for (std::uint64_t seed = 1000; seed < 1300; ++seed) {
    SCOPED_TRACE(seed);
    expect_best(random_instance(seed, {.layers = 12, .devices = 6, .is_chain = true}));
  }
}

TEST(FlatSearch, OffersEveryPartitionWhereThereAreFew) {
  for (std::uint64_t seed = 2000; seed < 2100; ++seed) {
    SCOPED_TRACE(seed);
    auto i = random_instance(seed, {.layers = 6, .devices = 4});
    i.request.top = 1'000'000;
    const layer_graph graph(i.model, i.together);
    const stage_cost model(i.model, graph, i.on, i.request);
    std::map<shape, double> found;
    for (const auto& c : search_flat(model))
      found.emplace(shape_of(c), c.seconds);
    EXPECT_EQ(found, search_all(model).feasible);
  }
}

TEST(FlatSearch, GivesOneMicrobatchBetweenFlushesOneReplica) {
  for (std::uint64_t seed = 3000; seed < 3040; ++seed) {
    SCOPED_TRACE(seed);
    auto i = random_instance(seed, {.layers = 8, .devices = 5});
    i.request.charge = update_charge::flush;
    i.request.microbatches = 1;
    i.request.update_lag = 0;
    i.request.use_all_devices = false;
    const layer_graph graph(i.model, i.together);
    for (const auto& c : search_flat(stage_cost(i.model, graph, i.on, i.request)))
      for (const auto& stage : c.stages)
        EXPECT_TRUE(c.stages.size() == 1 || stage.devices.size() == 1);
  }
}

TEST(FlatSearch, PutsTheConvolutionsOfVggOnFifteenOfSixteenWorkers) {
  const auto vgg = published_profile("vgg16");
  const layer_graph graph(vgg);
  const auto on = flat_cluster(16, 1.25e9);
  const search_request request;
  const stage_cost model(vgg, graph, on, request);
  const auto found = search_flat(model);
  ASSERT_FALSE(found.empty());
  const auto& best = found.front();
  ASSERT_EQ(best.stages.size(), 2u);
  EXPECT_EQ(best.stages[0].devices.size(), 15u);
  EXPECT_EQ(best.stages[1].devices.size(), 1u);
  const auto kinds_hold = [&](const stage_choice& s, const std::string& kind) {
    const auto layers = graph.layers_between(s.from_state, s.to_state);
    return std::count_if(layers.begin(), layers.end(),
                         [&](int i) { return vgg.layers[static_cast<std::size_t>(i)].kind.starts_with(kind); });
  };
  EXPECT_EQ(kinds_hold(best.stages[0], "Conv2d"), 13);
  EXPECT_EQ(kinds_hold(best.stages[0], "MaxPool2d"), 5);
  EXPECT_EQ(kinds_hold(best.stages[1], "Linear"), 3);
  const auto all = model.loads(0).between(0, graph.states() - 1);
  const auto one_worker = all.forward_seconds + all.backward_seconds;
  EXPECT_NEAR(one_worker / best.seconds, 15.23, 0.005);
}

TEST(FlatSearch, ChoosesDataParallelismForResNetOnAFastLink) {
  const auto resnet = published_profile("resnet50");
  const layer_graph graph(resnet);
  const auto on = flat_cluster(4, 10e9);
  const search_request request;
  const stage_cost model(resnet, graph, on, request);
  EXPECT_EQ(search_flat(model).front().origin, "data-parallel");
}

TEST(FlatSearch, ReachesFifteenAndOneOverTwoLevels) {
  const auto vgg = published_profile("vgg16");
  const layer_graph graph(vgg);
  auto on = flat_cluster(16, 1.25e9);
  on.levels = {{.group = 4, .bandwidth_bytes_per_s = 12e9}, {.group = 4, .bandwidth_bytes_per_s = 1.25e9}};
  const search_request request;
  const stage_cost model(vgg, graph, on, request);
  const auto found = search_flat(model);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                          [](const candidate& c) { return c.stages.size() == 2 && c.stages[0].devices.size() == 15; }));
}

} // namespace
} // namespace penstock::planner::testing
