// From plan, profile and cluster to a machine and a prediction: closed forms where there are any, and what is refused.
#include "planner/explore/predict.hpp"
#include "planner/explore/stage_sums.hpp"
#include "planner/machine.hpp"
#include "planner/search/layer_graph.hpp"
#include "tests/planner/profile/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>

namespace penstock::planner::testing {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Layers a, b, c, ... one after the other. Of one sample each takes 1 s forward and 2 s backward, makes 10 bytes,
/// keeps 10 and weighs 100.
profile chain(int layers) {
  profile p;
  p.model = "chain";
  p.model_options = "classes=2";
  p.input_bytes_per_sample = 7;
  measurement m;
  for (int i = 0; i < layers; ++i) {
    p.layers.push_back(
        {.name = std::string(1, static_cast<char>('a' + i)), .kind = "linear", .inputs = {i - 1}, .weight_bytes = 100});
    m.layers.push_back(
        {.forward_seconds = 1, .backward_seconds = 2, .output_bytes = 10, .kept_bytes = 10, .workspace_bytes = 5});
  }
  p.measurements.push_back(m);
  return p;
}

/// Stages of these many layers of a chain.
plan plan_of(const profile& p, const std::vector<int>& layers, const std::vector<int>& replicas,
             const std::string& schedule = "pipedream", int microbatches = 0) {
  plan made;
  made.schedule = schedule;
  made.microbatches = microbatches;
  made.optimizer_copies = 0;
  std::size_t first = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const auto next = first + static_cast<std::size_t>(layers[s]);
    made.stages.push_back(
        {.first_layer = p.layers[first].name, .last_layer = p.layers[next - 1].name, .replicas = replicas[s]});
    first = next;
  }
  return made;
}

constexpr double fast = 1e15;

TEST(Predict, BalancedStraightPipelinesRunAtFullSpeed) {
  const auto p = chain(4);
  const auto made = predict(plan_of(p, {1, 1, 1, 1}, {1, 1, 1, 1}), p, flat_cluster(4, fast));
  ASSERT_TRUE(made.predicted);
  EXPECT_NEAR(made.predicted->step_seconds, 3, 1e-9);
  EXPECT_NEAR(made.predicted->speedup_over_one_device, 4, 1e-9);
  EXPECT_NEAR(made.predicted->bubble, 0, 1e-9);
  EXPECT_EQ(made.predicted->stages.size(), 4U);
  EXPECT_NEAR(made.predicted->stages[3].busy, 1, 1e-9);
  EXPECT_THAT(made.predicted->binding, HasSubstr("compute of stage"));
}

TEST(Predict, PlacesWhatThePlanLeavesOpen) {
  auto p = chain(4);
  p.measurements.push_back(p.measurements.front());
  p.measurements.back().samples = 8;
  const auto made = predict(plan_of(p, {3, 1}, {3, 1}), p, flat_cluster(4, fast));
  EXPECT_EQ(made.batch, 8);
  EXPECT_EQ(made.microbatches, 1);
  EXPECT_EQ(made.stages[0].in_flight, 2);
  EXPECT_THAT(made.stages[0].devices, ElementsAre("device:0", "device:1", "device:2"));
  EXPECT_THAT(made.stages[1].devices, ElementsAre("device:3"));
  EXPECT_EQ(refusal([&] { check_plan(made); }), "");
}

TEST(Predict, FlushesCostTheClosedForm) {
  const auto p = chain(4);
  auto given = plan_of(p, {1, 1, 1, 1}, {1, 1, 1, 1}, "gpipe", 8);
  given.batch = 8;
  const auto made = predict(given, p, flat_cluster(4, fast));
  EXPECT_NEAR(made.predicted->step_seconds, (8 + 4 - 1) * 3, 1e-9);
  EXPECT_NEAR(made.predicted->bubble, 3.0 / 11, 1e-9);
}

TEST(Predict, CountsBytesBothWays) {
  const auto p = chain(4);
  const auto made = predict(plan_of(p, {2, 2}, {1, 1}), p, flat_cluster(2, fast));
  EXPECT_NEAR(made.predicted->bytes_per_minibatch, 2 * 10, 1e-9);
  EXPECT_NEAR(made.predicted->data_parallel_bytes_per_minibatch, 2 * (2 - 1) * 400 / 2.0, 1e-9);
}

// What pure data parallelism would send is what a plan of pure data parallelism sends.
TEST(Predict, DataParallelPlansSendWhatDataParallelismSends) {
  const auto p = chain(4);
  for (const std::string schedule : {"pipedream", "data-parallel", "2bw"}) {
    auto given = plan_of(p, {4}, {4}, schedule);
    given.batch = 8;
    const auto made = predict(given, p, flat_cluster(4, fast));
    EXPECT_NEAR(made.predicted->bytes_per_minibatch, made.predicted->data_parallel_bytes_per_minibatch,
                0.01 * made.predicted->bytes_per_minibatch)
        << schedule;
  }
}

TEST(Predict, NamesWhatBinds) {
  const auto p = chain(4);
  auto made = predict(plan_of(p, {1, 3}, {1, 1}), p, flat_cluster(2, fast));
  EXPECT_EQ(made.predicted->binding, "compute of stage 1");
  auto given = plan_of(p, {2, 2}, {1, 1});
  given.stages[0].in_flight = 4;
  made = predict(given, p, flat_cluster(2, 0.5));
  EXPECT_EQ(made.predicted->binding, "link 0-1");
  EXPECT_NEAR(made.predicted->step_seconds, 20, 1e-9); // 10 bytes each way at once
  made = predict(plan_of(p, {4}, {2}), p, flat_cluster(2, 1));
  EXPECT_EQ(made.predicted->binding, "all-reduce of stage 0");
  given = plan_of(p, {2, 2}, {1, 1});
  given.stages[0].recompute = true;
  made = predict(given, p, flat_cluster(2, fast, 0, 1e9));
  EXPECT_EQ(made.predicted->binding, "memory of stage 0");
}

TEST(Predict, IsWhatItsCostsSimulateTo) {
  const auto p = chain(6);
  auto given = plan_of(p, {3, 2, 1}, {2, 2, 1}, "1f1b", 6);
  given.batch = 20;
  const auto made = predict(given, p, flat_cluster(5, 100, 0.01));
  const auto read = plan_from_json(to_json(made), "plan.json");
  ASSERT_TRUE(read.predicted && read.predicted->costs);
  auto s = resolve_schedule(request_of(read, 1));
  s.minibatches = steady_minibatches(s);
  EXPECT_DOUBLE_EQ(run_machine(s, *read.predicted->costs).step_seconds, made.predicted->step_seconds);
}

TEST(MachineOf, AddsUpLayersAtTheSizesOfTheMicrobatches) {
  const auto p = chain(4);
  auto given = plan_of(p, {3, 1}, {1, 1}, "gpipe", 2);
  given.batch = 5;
  const auto m = machine_of(given, p, flat_cluster(2, 100));
  ASSERT_EQ(m.stages.size(), 2U);
  EXPECT_THAT(m.stages[0].forward_seconds, ElementsAre(DoubleEq(9), DoubleEq(6)));
  EXPECT_THAT(m.stages[0].output_bytes, ElementsAre(DoubleEq(30), DoubleEq(20)));
  EXPECT_THAT(m.stages[1].output_bytes, ElementsAre(0));
  EXPECT_THAT(m.stages[0].kept_bytes, ElementsAre(DoubleEq(90), DoubleEq(60)));
  EXPECT_THAT(m.stages[1].kept_bytes, ElementsAre(DoubleEq(60), DoubleEq(40))); // its copy of what came in, too
  EXPECT_EQ(m.stages[0].weight_bytes, 300);
  EXPECT_EQ(m.stages[0].all_reduce_bytes, 0);
  given.microbatches = 5;
  EXPECT_EQ(machine_of(given, p, flat_cluster(2, 100)).stages[0].forward_seconds.size(), 1U);
}

TEST(MachineOf, RecomputationTradesTimeForMemory) {
  const auto p = chain(4);
  auto given = plan_of(p, {2, 2}, {1, 1});
  const auto plain = machine_of(given, p, flat_cluster(2, 100));
  EXPECT_THAT(plain.stages[0].kept_bytes, ElementsAre(DoubleEq(20)));
  given.stages[0].recompute = given.stages[1].recompute = true;
  const auto m = machine_of(given, p, flat_cluster(2, 100));
  EXPECT_THAT(m.stages[0].backward_seconds, ElementsAre(DoubleEq(6)));
  EXPECT_THAT(m.stages[0].kept_bytes, ElementsAre(0));            // the model's input is nobody's
  EXPECT_THAT(m.stages[1].kept_bytes, ElementsAre(DoubleEq(10))); // what came in
  // All that is kept lives while the forward runs again, and its workspace beside it.
  EXPECT_THAT(m.stages[1].workspace_bytes, ElementsAre(DoubleEq(5)));
  EXPECT_THAT(m.stages[1].backward_workspace_bytes, ElementsAre(DoubleEq(25)));
}

// Two layers keep 10 bytes each and weigh 100; the backward begins with the second one's: both kept, one gradient made.
TEST(MachineOf, CountsWhatABackwardHasNotYetMadeAndNoLongerKeeps) {
  auto p = chain(2);
  p.measurements[0].layers[0].backward_workspace_bytes = 30;
  p.measurements[0].layers[1].backward_workspace_bytes = 200;
  // Second layer: 20 + 100 + 200; first: 10 + 200 + 30; each less all that is kept (20) and all gradients (200).
  auto m = machine_of(plan_of(p, {2}, {1}), p, flat_cluster(1, 100));
  EXPECT_THAT(m.stages[0].backward_workspace_bytes, ElementsAre(DoubleEq(100)));
  // With gradients that are all there since another micro-batch one more of the layer's own is made before it is added.
  m = machine_of(plan_of(p, {2}, {1}, "gpipe", 2), p, flat_cluster(1, 100));
  EXPECT_GT(m.stages[0].backward_workspace_bytes.front(), 100);
}

TEST(MachineOf, SplitsTheBackwardAsTheProfileDoes) {
  auto p = chain(3);
  auto& costs = p.measurements[0].layers;
  costs[0].weight_seconds = 0.5;
  costs[1].weight_seconds = 1.5;
  costs[1].delayed_bytes = 150;
  auto two = plan_of(p, {2, 1}, {1, 1}, "zb-h1");
  const auto m = machine_of(two, p, flat_cluster(2, fast));
  EXPECT_THAT(m.stages[0].backward_seconds, ElementsAre(DoubleEq(4)));
  EXPECT_THAT(m.stages[0].weight_seconds, ElementsAre(DoubleEq(2)));
  EXPECT_THAT(m.stages[0].delayed_bytes, ElementsAre(DoubleEq(150)));
  two.stages[0].recompute = true;
  EXPECT_THAT(machine_of(two, p, flat_cluster(2, fast)).stages[0].weight_seconds, ElementsAre(DoubleEq(2)))
      << "what is computed again belongs to the input's part";
}

TEST(MachineOf, TakesEachTypesOwnPace) {
  const auto p = chain(4);
  auto c = flat_cluster(3, 100);
  c.devices = {{.name = "slow", .count = 1, .speed = 0.5},
               {.name = "quick", .count = 1, .speed = 2},
               {.name = "own", .count = 1}};
  auto own = p;
  own.measurements[0].layers[3].forward_seconds = 11;
  c.devices[2].own_profile = std::make_shared<profile>(own);
  const auto m = machine_of(plan_of(p, {2, 1, 1}, {1, 1, 1}), p, c);
  EXPECT_THAT(m.stages[0].forward_seconds, ElementsAre(DoubleEq(4)));
  EXPECT_THAT(m.stages[1].forward_seconds, ElementsAre(DoubleEq(0.5)));
  EXPECT_THAT(m.stages[2].forward_seconds, ElementsAre(DoubleEq(11)));
  const auto made = predict(plan_of(p, {4}, {1}), p, c);
  // The one device that is fastest, not the one that the plan took.
  EXPECT_NEAR(made.predicted->speedup_over_one_device, 6.0 / 24, 1e-9);
}

TEST(MachineOf, KeepsNoCopyOfWhatComesByReference) {
  const auto p = chain(4);
  auto c = flat_cluster(2, 100);
  c.levels[0].by_reference = true;
  EXPECT_THAT(machine_of(plan_of(p, {2, 2}, {1, 1}), p, c).stages[1].kept_bytes, ElementsAre(DoubleEq(20)));
}

TEST(MachineOf, RefusesWhatDoesNotFitTogether) {
  const auto p = chain(4);
  const auto c = flat_cluster(4, 100);
  const auto refused = [&](const plan& given, const profile& of, const cluster& on) {
    return refusal([&] { machine_of(given, of, on); });
  };
  auto given = plan_of(p, {2, 2}, {1, 1});
  given.model = "vgg16";
  EXPECT_EQ(refused(given, p, c),
            "the plan is for the model 'vgg16', the profile is of 'chain', wanted one of the same");
  given.model = "chain";
  given.model_options = "classes=3";
  EXPECT_THAT(refused(given, p, c), HasSubstr("the profile is of 'classes=2'"));
  EXPECT_EQ(refused(plan_of(p, {2, 2}, {3, 2}), p, c),
            "the plan has 5 replicas over all stages, the cluster 4 devices");
  given = plan_of(p, {2, 2}, {1, 1});
  given.stages[0].last_layer = "bb";
  EXPECT_THAT(refused(given, p, c), HasSubstr("'bb', which is no layer of the model"));
  given = plan_of(p, {2, 2}, {1, 1});
  given.stages[0].devices = {"device:0"};
  given.stages[1].devices = {"device:4"};
  EXPECT_THAT(refused(given, p, c), HasSubstr("device:4"));
  given = plan_of(p, {2, 2}, {1, 1});
  given.layer_order = {"a", "c", "b", "d"};
  given.stages[0].last_layer = "c";
  given.stages[1].first_layer = "b";
  EXPECT_EQ(refused(given, p, c), "layer_order has 'c' before its input 'b', wanted it after");
  auto fused = p;
  fused.layers[2].fused_with_previous = true;
  EXPECT_THAT(refused(plan_of(p, {2, 2}, {1, 1}), fused, c),
              HasSubstr("stage 1 begins at 'c', which is computed as one"));
  auto mixed = c;
  mixed.devices = {{.name = "old", .count = 1}, {.name = "new", .count = 3}};
  EXPECT_EQ(refused(plan_of(p, {2, 2}, {2, 1}), p, mixed), "stage 0 has replicas on old:0 and new:0, wanted one type");
  mixed.devices[0].own_profile = std::make_shared<profile>(chain(3));
  EXPECT_THAT(refused(plan_of(p, {2, 2}, {1, 1}), p, mixed), HasSubstr("device type 'old' has other layers"));
}

profile random_graph(std::mt19937& random, int layers) {
  auto p = chain(layers);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < layers; ++i) {
    auto& layer = p.layers[static_cast<std::size_t>(i)];
    layer.inputs = {i == 0 ? -1 : upto(i + 1) - 1};
    if (const int other = i == 0 ? -1 : upto(i + 1) - 1; other != layer.inputs[0]) layer.inputs.push_back(other);
    layer.weight_bytes = upto(1000);
    auto& cost = p.measurements[0].layers[static_cast<std::size_t>(i)];
    cost = {.forward_seconds = 1.0 * upto(10),
            .backward_seconds = 1.0 * upto(10),
            .accumulate_seconds = 1.0 * upto(3),
            .output_bytes = 1.0 * upto(50),
            .kept_bytes = 1.0 * upto(50),
            .workspace_bytes = 1.0 * upto(50)};
    p.measurements[0].update_seconds.push_back(upto(5));
  }
  return p;
}

TEST(StageLoads, AgreeWithTheSearchsTable) {
  std::mt19937 random(8);
  int compared = 0;
  for (int round = 0; round < 200; ++round) {
    const int layers = 2 + static_cast<int>(random() % 10);
    const auto p = random_graph(random, layers);
    const layer_graph graph(p);
    const load_table table(p, graph, 3, 1);
    std::vector<int> order(static_cast<std::size_t>(layers));
    std::iota(order.begin(), order.end(), 0);
    const auto first = 1 + static_cast<int>(random() % static_cast<unsigned>(layers - 1));
    const auto state = graph.state_after(order, static_cast<std::size_t>(first));
    if (state < 0) continue;
    const auto loads = costs_of_stages(layers_of_stages(plan_of(p, {first, layers - first}, {1, 1}), p), p, 3, 1, 1);
    const auto last = graph.states() - 1;
    for (const auto& [mine, theirs] :
         {std::pair{loads[0], table.between(0, state)}, std::pair{loads[1], table.between(state, last)}}) {
      EXPECT_NEAR(mine.forward_seconds, theirs.forward_seconds, 1e-9);
      EXPECT_NEAR(mine.backward_seconds, theirs.backward_seconds, 1e-9);
      EXPECT_NEAR(mine.accumulate_seconds, theirs.accumulate_seconds, 1e-9);
      EXPECT_NEAR(mine.update_seconds, theirs.update_seconds, 1e-9);
      EXPECT_NEAR(mine.weight_bytes, theirs.weight_bytes, 1e-9);
      EXPECT_NEAR(mine.kept_bytes, theirs.kept_bytes, 1e-9);
      EXPECT_LE(mine.workspace_bytes, theirs.workspace_bytes + 1e-9); // the table takes the largest, wherever it is
      EXPECT_NEAR(mine.input_bytes, theirs.input_bytes, 1e-9);
      EXPECT_NEAR(mine.output_bytes, theirs.output_bytes, 1e-9);
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

} // namespace
} // namespace penstock::planner::testing
