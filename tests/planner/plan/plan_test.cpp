// What a plan means for a model's layers and for the schedule, and which plans can run.
#include "planner/check_schedule.hpp"
#include "planner/plan/plan.hpp"
#include "tests/planner/plan/example_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <stdexcept>

namespace penstock::planner::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string fault_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::invalid_argument& fault) {
    return fault.what();
  }
  return "";
}

const std::vector<std::string> layers{"conv1", "pool1", "conv2", "pool2", "fc1", "fc2", "loss"};

plan plan_of(const std::vector<std::pair<std::string, std::string>>& ranges, const std::vector<int>& replicas = {}) {
  plan p;
  for (std::size_t s = 0; s < ranges.size(); ++s)
    p.stages.push_back({.first_layer = ranges[s].first,
                        .last_layer = ranges[s].second,
                        .replicas = replicas.empty() ? 1 : replicas[s]});
  return p;
}

std::string cut_fault(const std::vector<std::pair<std::string, std::string>>& ranges) {
  return fault_of([&] { cuts_of(plan_of(ranges), layers); });
}

TEST(Plan, FindsWhereItsStagesBegin) {
  EXPECT_THAT(cuts_of(plan_of({{"conv1", "loss"}}), layers), ElementsAre());
  EXPECT_THAT(cuts_of(plan_of({{"conv1", "pool1"}, {"conv2", "fc2"}, {"loss", "loss"}}), layers), ElementsAre(2, 6));
}

TEST(Plan, NamesAGapAnOverlapAndAMissingLayer) {
  EXPECT_EQ(cut_fault({{"conv1", "pool1"}, {"pool2", "loss"}}),
            "stage 1 begins at 'pool2', wanted 'conv2', the layer after stage 0's last ('pool1')");
  EXPECT_EQ(cut_fault({{"conv1", "conv2"}, {"conv2", "loss"}}),
            "stage 1 begins at 'conv2', wanted 'pool2', the layer after stage 0's last ('conv2')");
  EXPECT_EQ(cut_fault({{"pool1", "loss"}}), "stage 0 begins at 'pool1', wanted 'conv1', the first layer of all");
  EXPECT_EQ(cut_fault({{"conv1", "pool2"}, {"fc1", "fc2"}}),
            "stage 1, the last, ends at 'fc2', wanted 'loss': no stage has 'loss'");
  EXPECT_EQ(cut_fault({{"conv1", "loss"}, {"fc1", "loss"}}),
            "stage 1 begins at 'fc1', wanted no more stages: stage 0 ends at the last layer of all");
  EXPECT_EQ(cut_fault({{"conv1", "fc1"}, {"fc2", "conv2"}}),
            "stage 1 ends at 'conv2', which comes before its first layer 'fc2'");
  EXPECT_EQ(cut_fault({{"conv1", "pol2"}, {"fc1", "loss"}}),
            "stage 0 ends at 'pol2', which is no layer of the model (did you mean 'pool2'?)");
  EXPECT_EQ(cut_fault({}), "the plan has no stages, wanted at least one");
}

TEST(Plan, CutsAnOrderOfItsOwn) {
  auto p = plan_of({{"conv1", "conv2"}, {"pool1", "loss"}});
  p.layer_order = {"conv1", "conv2", "pool1", "pool2", "fc1", "fc2", "loss"};
  EXPECT_THAT(cuts_of(p, layers), ElementsAre(2));
  p.layer_order[1] = "conv1";
  EXPECT_EQ(fault_of([&] { cuts_of(p, layers); }), "layer_order names 'conv1' twice, wanted every layer once");
  p.layer_order[1] = "conv3";
  EXPECT_THAT(fault_of([&] { cuts_of(p, layers); }), HasSubstr("layer_order names 'conv3', which is no layer"));
  p.layer_order = {"conv1", "conv2"};
  EXPECT_EQ(fault_of([&] { cuts_of(p, layers); }), "layer_order lacks 'pool1', wanted every layer of the model once");
}

TEST(Plan, AsksForItsSchedule) {
  auto p = plan_of({{"conv1", "pool1"}, {"conv2", "loss"}}, {3, 1});
  EXPECT_EQ(request_of(p, 5).in_flight.kind, in_flight_spec::mode::standard);
  EXPECT_EQ(request_of(p, 5).minibatches, 5);
  EXPECT_THAT(request_of(p, 5).replicas, ElementsAre(3, 1));
  p.stages[0].in_flight = 4;
  EXPECT_THAT(request_of(p, 5).in_flight.given, ElementsAre(4, 1));
}

TEST(Plan, SettlesWhatTheScheduleDecides) {
  auto p = plan_of({{"conv1", "pool1"}, {"conv2", "loss"}}, {3, 1});
  auto done = settled(p);
  EXPECT_EQ(done.microbatches, 1);
  EXPECT_EQ(done.stages[0].in_flight, 2); // ceil(4 / 3)
  p.schedule = "2bw";
  p.stages[0].in_flight = 5;
  done = settled(p);
  EXPECT_EQ(done.microbatches, 12); // (5 - 1) x 3
  p.schedule = "gpipe";
  p.stages[0].in_flight = 0;
  p.microbatches = 8;
  done = settled(p);
  EXPECT_EQ(done.stages[0].in_flight, 3);
  EXPECT_EQ(done.stages[1].in_flight, 8);
}

TEST(Plan, FreezesAPrefixAndThawsIt) {
  auto p = plan_of({{"conv1", "pool1"}, {"conv2", "fc1"}, {"fc2", "loss"}}, {2, 1, 1});
  for (auto& stage : p.stages)
    stage.in_flight = stage.update_lag = 1;
  p.stages[0].recompute = true;
  const auto before = p;
  freeze_until(p, 3, layers);
  EXPECT_EQ(p.first_active, "pool2");
  EXPECT_EQ(p.layer_order, layers);
  EXPECT_EQ(frozen_stages_of(p), 1) << "stage 1 is frozen in part";
  EXPECT_EQ(p.stages[0].in_flight, 0);
  EXPECT_EQ(p.stages[0].update_lag, 0);
  EXPECT_FALSE(p.stages[0].recompute);
  EXPECT_EQ(p.stages[1], before.stages[1]);
  EXPECT_EQ(schedule_of(p).frozen_stages, 1);
  EXPECT_EQ(describe_stages(p), "conv1..pool1 x2 | conv2..fc1 x1 | fc2..loss x1, frozen before pool2");
  settle_schedule(p);
  EXPECT_EQ(p.ahead, 1);
  p.ahead = 7;
  EXPECT_EQ(schedule_of(p).source_credit(), 1 + 7);
  freeze_until(p, 1, layers);
  EXPECT_EQ(frozen_stages_of(p), 0);
  EXPECT_EQ(p.ahead, 0) << "nothing runs ahead any more";
  freeze_until(p, 0, layers);
  EXPECT_EQ(p.frozen_until, 0);
  EXPECT_TRUE(p.first_active.empty() && p.layer_order.empty());
  EXPECT_EQ(fault_of([&] { freeze_until(p, 7, layers); }),
            "frozen_until is layer 7 of 7, wanted 0 to 6: the loss stays active");
}

TEST(Plan, FindsWhatIsFrozenByItsNameOnceItsLayersAreKnown) {
  auto p = plan_of({{"conv1", "pool1"}, {"conv2", "fc1"}, {"fc2", "loss"}});
  p.first_active = "conv2";
  EXPECT_TRUE(knows_frozen_stages(p));
  EXPECT_EQ(frozen_stages_of(p), 1) << "a stage begins with it";
  settle_frozen(p, layers);
  EXPECT_EQ(p.frozen_until, 2);
  p = plan_of({{"conv1", "pool1"}, {"conv2", "fc1"}, {"fc2", "loss"}});
  p.first_active = "pool2";
  EXPECT_FALSE(knows_frozen_stages(p));
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "") << "whoever knows the model checks it";
  EXPECT_EQ(fault_of([&] { frozen_stages_of(p); }),
            "frozen_until is 'pool2', inside a stage as far as the plan says: wanted the first layer of one, or "
            "layer_order beside it");
  settle_frozen(p, layers);
  EXPECT_EQ(p.frozen_until, 3);
  EXPECT_EQ(frozen_stages_of(p), 1);
  const auto settled_once = p;
  settle_frozen(p, layers);
  EXPECT_EQ(p, settled_once);
  p.first_active = "conv1";
  EXPECT_EQ(fault_of([&] { settle_frozen(p, layers); }),
            "frozen_until is layer 3, 'pool2', and by name 'conv1', wanted one and the same");
  p.frozen_until = 0;
  settle_frozen(p, layers);
  EXPECT_TRUE(p.first_active.empty()) << "nothing is before the first layer";
  p.first_active = "pol2";
  EXPECT_EQ(fault_of([&] { settle_frozen(p, layers); }),
            "frozen_until is 'pol2', which is no layer of the model (did you mean 'pool2'?)");
  p.first_active.clear();
  p.frozen_until = 4;
  settle_frozen(p, layers);
  EXPECT_EQ(p.first_active, "fc1");
}

TEST(Plan, ChecksDevices) {
  auto p = example_plan();
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "");
  p.stages[1].devices = {"cpu:1"};
  EXPECT_EQ(fault_of([&] { check_plan(p); }),
            "stage 1 names the device 'cpu:1' of stage 0 again, wanted a device for each replica");
  p.stages[1].devices = {"cpu:2", "cpu:3"};
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "stage 1 has 1 replicas on 2 devices, wanted one device for each");
  p.stages[1].devices = {};
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "stage 1 names no devices, wanted them on every stage or on none");
}

TEST(Plan, ChecksRanks) {
  auto p = example_plan();
  p.processes = 2;
  p.stages[0].ranks = {0, 1};
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "stage 1 names no ranks, wanted them on every stage or on none");
  p.stages[1].ranks = {1, 0};
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "stage 1 has 1 replicas on 2 ranks, wanted one rank for each");
  p.stages[1].ranks = {2};
  EXPECT_EQ(fault_of([&] { check_plan(p); }),
            "stage 1 names rank 2, wanted ranks from 0 to 1, of the plan's processes");
  p.stages[1].ranks = {1};
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "") << "several workers of a process";
  p.processes = 0;
  p.stages[1].ranks = {-1};
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "stage 1 names rank -1, wanted ranks from 0");
}

TEST(Plan, IsRefusedWhereTheRuntimeWouldRefuseIt) {
  auto p = plan_of({{"conv1", "pool1"}, {"conv2", "loss"}}, {1, 2});
  p.stages[0].in_flight = 1;
  p.stages[1].in_flight = 2;
  EXPECT_THAT(fault_of([&] { check_plan(p); }), HasSubstr("can deadlock"));
  p = plan_of({{"conv1", "loss"}});
  p.microbatches = 4;
  EXPECT_THAT(fault_of([&] { check_plan(p); }), HasSubstr("2bw"));
  p.schedule = "fbp-as";
  EXPECT_THAT(fault_of([&] { check_plan(p); }), HasSubstr("simulation_only"));
  p.simulation_only = true;
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "");
  p = plan_of({{"conv1", "pool1"}, {"conv2", "loss"}});
  p.schedule = "data-parallel";
  EXPECT_THAT(fault_of([&] { check_plan(p); }), HasSubstr("one stage"));
}

TEST(Plan, IsRefusedBeforeItTakesAllMemory) {
  plan p;
  p.schedule = "gpipe";
  p.microbatches = 1'000'000;
  for (int s = 0; s < 4096; ++s)
    p.stages.push_back({.first_layer = "layer" + std::to_string(s), .last_layer = "layer" + std::to_string(s)});
  EXPECT_THAT(fault_of([&] { check_plan(p); }), HasSubstr("forwards a minibatch"));
  p.microbatches = 8;
  EXPECT_EQ(fault_of([&] { check_plan(p); }), "");
}

TEST(Plan, PassesForEveryScheduleThatResolves) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    plan p;
    const auto names = schedule_names();
    p.schedule = names[random() % names.size()];
    for (std::size_t s = 1 + random() % 4; s > 0; --s)
      p.stages.push_back({.first_layer = "x", .last_layer = "y", .replicas = static_cast<int>(1 + random() % 4)});
    if (random() % 2 == 0) p.microbatches = static_cast<int>(1 + random() % 9);
    bool resolves = true;
    try {
      resolve_schedule(request_of(p, 1));
    } catch (const std::invalid_argument&) {
      resolves = false;
    }
    EXPECT_EQ(fault_of([&] { check_plan(p); }).empty(), resolves) << to_json(p);
  }
}

TEST(Plan, NamesTheLayersOfAStage) {
  EXPECT_EQ(layers_text({.first_layer = "conv1", .last_layer = "fc1"}), "conv1 .. fc1");
  EXPECT_EQ(layers_text({.first_layer = "fc1", .last_layer = "fc1"}), "fc1");
}

TEST(Plan, SaysItsStagesInOneLine) {
  EXPECT_EQ(describe_stages(plan_of({{"conv1", "pool2"}, {"fc1", "fc1"}}, {15, 1})), "conv1..pool2 x15 | fc1 x1");
}

} // namespace
} // namespace penstock::planner::testing
