// From a request to the plan that runs: nothing is left open, and what cannot be is refused.
#include "actors/policy/settle_plan.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "planner/plan/plan.hpp"

#include <gmock/gmock.h>

namespace penstock::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using mode = planner::in_flight_spec::mode;

model chain(int layers) {
  model_builder b("chain", {4});
  auto x = b.input();
  for (int l = 0; l < layers; ++l)
    x = b.add("fc" + std::to_string(l), layers::linear({.in_features = 4, .out_features = 4}), {x});
  return b.build(x);
}

std::vector<pipeline_request> many_requests() {
  std::vector<pipeline_request> all;
  for (const auto& schedule : planner::schedule_names())
    for (const auto& replicas : std::vector<std::vector<int>>{{1}, {4}, {1, 1, 1}, {2, 1}, {1, 2, 1}, {2, 2}})
      for (const auto kind : {mode::standard, mode::tight, mode::doubled, mode::full})
        for (const int microbatches : {0, 1, 5}) {
          pipeline_request r{.schedule = schedule, .replicas = replicas, .microbatches = microbatches};
          r.in_flight.kind = kind;
          r.window = microbatches;
          r.chunks = 1;
          r.threads = 3 - microbatches / 2;
          r.recompute.assign(replicas.size(), kind == mode::full);
          all.push_back(r);
        }
  return all;
}

TEST(SettlePlan, LeavesNothingOpenAndIsAsTheScheduleResolvesIt) {
  const auto net = chain(5);
  int settled_plans = 0;
  for (const auto& r : many_requests()) {
    planner::schedule expected;
    try {
      expected = planner::resolve_schedule(schedule_request_of(r, 1));
    } catch (const std::invalid_argument& refusal) {
      EXPECT_THAT([&] { settle_request(r, net); }, ThrowsMessage<usage_error>(refusal.what()));
      continue;
    }
    ++settled_plans;
    const auto p = settle_request(r, net);
    EXPECT_EQ(p->schedule, r.schedule);
    EXPECT_EQ(p->microbatches, expected.microbatches);
    EXPECT_EQ(p->window, r.window);
    EXPECT_EQ(p->threads, r.threads);
    ASSERT_EQ(p->stages.size(), r.replicas.size());
    EXPECT_EQ(p->stages.front().first_layer, "fc0");
    EXPECT_EQ(p->stages.back().last_layer, "fc4");
    for (std::size_t s = 0; s < p->stages.size(); ++s) {
      EXPECT_EQ(p->stages[s].replicas, r.replicas[s]);
      EXPECT_EQ(p->stages[s].in_flight, expected.stages[s].credit) << r.schedule << " stage " << s;
      EXPECT_EQ(p->stages[s].recompute, r.recompute[s]);
    }
    const auto again = planner::schedule_of(*p);
    EXPECT_EQ(again.microbatches, expected.microbatches);
    EXPECT_EQ(again.source_credit(), expected.source_credit());
  }
  EXPECT_GT(settled_plans, 200);
}

TEST(SettlePlan, ASettledPlanComesBackAsItIsAlsoFromItsFileAndAsARequest) {
  const auto net = chain(5);
  for (const auto& r : many_requests())
    for (const int processes : {1, 2, 3}) {
      planner::plan_ptr p;
      try {
        p = settle_request(r, net, {processes, 0});
      } catch (const usage_error&) {
        continue; // no such schedule, or fewer workers than processes
      }
      EXPECT_EQ(*settle_plan(*p, net, {processes, 0}), *p);
      EXPECT_EQ(*settle_request(as_request(*p, net), net, {processes, 0}), *p);
      planner::plan file;
      static_cast<planner::execution_plan&>(file) = *p;
      const planner::execution_plan read = planner::plan_from_json(planner::to_json(file), "plan.json");
      EXPECT_EQ(read, *p) << planner::to_json(file);
      EXPECT_NO_THROW(planner::check_plan(file));
    }
}

TEST(SettlePlan, AFreezeComesBackToo) {
  const auto net = chain(5);
  int settled_plans = 0;
  for (auto r : many_requests())
    for (const int frozen_until : {1, 2, 4}) {
      r.frozen_until = frozen_until;
      planner::plan_ptr p;
      try {
        p = settle_request(r, net);
      } catch (const usage_error&) {
        continue; // no such schedule
      }
      ++settled_plans;
      EXPECT_EQ(p->frozen_until, frozen_until);
      EXPECT_EQ(p->first_active, "fc" + std::to_string(frozen_until));
      const auto frozen = planner::frozen_stages_of(*p);
      EXPECT_EQ(p->ahead, frozen == 0 ? 0 : p->stages[static_cast<std::size_t>(frozen)].replicas);
      for (int s = 0; s < frozen; ++s)
        EXPECT_FALSE(p->stages[static_cast<std::size_t>(s)].recompute) << "nothing is kept there anyway";
      EXPECT_EQ(*settle_plan(*p, net), *p);
      EXPECT_EQ(*settle_request(as_request(*p, net), net), *p);
      planner::plan file;
      static_cast<planner::execution_plan&>(file) = *p;
      const planner::execution_plan read = planner::plan_from_json(planner::to_json(file), "plan.json");
      EXPECT_EQ(*settle_plan(read, net), *p) << planner::to_json(file);
      EXPECT_EQ(*settle_request(as_request(read, net), net), *p) << "by name alone";
    }
  EXPECT_GT(settled_plans, 200);
}

TEST(SettlePlan, BalancesTheCutsThatAreNotGiven) {
  const auto net = chain(6);
  const auto balanced = settle_request({.replicas = {1, 1, 1}}, net);
  EXPECT_THAT(first_layers_of(*balanced, net), ElementsAre(0, 2, 4));
  const auto given = settle_request({.replicas = {1, 1, 1}, .cuts = {1, 5}}, net);
  EXPECT_THAT(first_layers_of(*given, net), ElementsAre(0, 1, 5));
  EXPECT_EQ(given->stages[1].last_layer, "fc4");
}

TEST(SettlePlan, PlacesByRanksThenDevicesThenInOrder) {
  const auto net = chain(4);
  EXPECT_THAT(settle_request({.replicas = {2, 1}}, net)->stages[0].ranks, IsEmpty()) << "there is one process";
  const auto in_order = settle_request({.replicas = {2, 1}}, net, {2, 0});
  EXPECT_THAT(placement_of(*in_order).rank_of, ElementsAre(ElementsAre(0, 0), ElementsAre(1)));
  const auto given = settle_request({.replicas = {2, 1}, .ranks = {{2, 2}, {0}}}, net, {3, 0});
  EXPECT_THAT(placement_of(*given).rank_of, ElementsAre(ElementsAre(2, 2), ElementsAre(0)));
  EXPECT_TRUE(placement_of(*given).is_idle(1));
  auto p = *in_order;
  EXPECT_THAT(placement_of(*settle_plan(p, net, {3, 0})).rank_of, ElementsAre(ElementsAre(0, 1), ElementsAre(2)))
      << "ranks of another number of processes";
  p.stages[0].devices = {"cpu:2", "cpu:1"};
  p.stages[1].devices = {"cpu:0"};
  EXPECT_EQ(placement_of(*settle_plan(p, net, {2, 0})).rank_of, placement_of(*in_order).rank_of);
  EXPECT_THAT(placement_of(*settle_plan(p, net, {3, 0})).rank_of, ElementsAre(ElementsAre(2, 1), ElementsAre(0)));
  p.stages[1].devices = {"cpu"};
  EXPECT_THAT(placement_of(*settle_plan(p, net, {3, 0})).rank_of, ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_THAT(settle_plan(p, net)->stages[0].ranks, IsEmpty());
  EXPECT_EQ(settle_plan(p, net)->processes, 0);
}

TEST(SettlePlan, HostsSeveralStagesOnEveryWorker) {
  const auto net = chain(7);
  pipeline_request r{.schedule = "interleaved", .replicas = {2, 2}, .microbatches = 4};
  r.recompute = {false, true, false, false};
  const auto p = settle_request(r, net, {2, 0}); // two chunks are its default
  EXPECT_EQ(p->chunks, 2);
  ASSERT_EQ(p->stages.size(), 4U);
  EXPECT_EQ(workers_of(*p), 4);
  EXPECT_EQ(workers_on(*p, 0), 2);
  EXPECT_EQ(p->stages[3].last_layer, "fc6");
  EXPECT_TRUE(p->stages[1].recompute);
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(p->stages[s].replicas, 2);
    EXPECT_THAT(p->stages[s].ranks, s % 2 == 0 ? ElementsAre(0, 0) : ElementsAre(1, 1)) << "with its worker";
  }
  EXPECT_EQ(*settle_plan(*p, net, {2, 0}), *p);
  EXPECT_EQ(*settle_request(as_request(*p, net), net, {2, 0}), *p);
  planner::plan written;
  static_cast<planner::execution_plan&>(written) = *p;
  const auto text = planner::to_json(written);
  EXPECT_THAT(text, HasSubstr("\"chunks\": 2"));
  EXPECT_EQ(static_cast<planner::execution_plan>(planner::plan_from_json(text, "p.json")), *p);
}

TEST(SettlePlan, RefusesChunksThatCannotBe) {
  const auto net = chain(7);
  const auto refused = [&](const pipeline_request& r, const std::string& words) {
    EXPECT_THAT([&] { settle_request(r, net); }, ThrowsMessage<usage_error>(HasSubstr(words)));
  };
  refused({.schedule = "interleaved", .replicas = {1, 1}, .chunks = 4},
          "chunks: 4 on 2 worker positions are 8 stages, wanted at most 7, the layers of chain");
  refused({.schedule = "interleaved", .replicas = {1, 2}}, "needs equal replica counts: worker position 0 has 1");
  refused({.schedule = "1f1b", .replicas = {1, 1}, .chunks = 2}, "several chunks a worker are for interleaved");
  auto plan = *settle_request({.schedule = "interleaved", .replicas = {1, 1}}, net);
  plan.stages[2].replicas = 2;
  EXPECT_THAT([&] { settle_plan(plan, net); },
              ThrowsMessage<usage_error>(HasSubstr("stage 2 has 2 replicas and stage 0 has 1, wanted the same")));
  plan.chunks = 3;
  EXPECT_THAT([&] { settle_plan(plan, net); },
              ThrowsMessage<usage_error>(HasSubstr("chunks is 3 and the plan has 4 stages")));
}

TEST(SettlePlan, RefusesInOneLine) {
  const auto net = chain(4);
  const auto refused = [&](const pipeline_request& r, const char* says, job_place where = {}) {
    EXPECT_THAT([&] { settle_request(r, net, where); },
                ThrowsMessage<usage_error>(::testing::AllOf(HasSubstr(says), ::testing::Not(HasSubstr("\n")))));
  };
  refused({.schedule = "pipedrem"}, "did you mean 'pipedream'");
  refused({.schedule = "fbp-as"}, "fbp-as");
  refused({.replicas = {}}, "no stages given");
  refused({.replicas = {1, 0}}, "replicas of stage 1 is 0, wanted at least 1");
  refused({.replicas = {1, 1, 1, 1, 1}}, "4 layers; 5 stages");
  refused({.microbatches = 2}, "2bw");
  refused({.replicas = {1, 1}, .in_flight = {mode::given, {1, 2}}}, "can deadlock");
  refused({.replicas = {1, 1}, .in_flight = {mode::given, {2}}}, "wanted one per stage");
  refused({.window = -1}, "window is -1");
  refused({.replicas = {1, 1}, .cuts = {1, 2}}, "cuts: 2 given; 2 stages have 1");
  refused({.replicas = {1, 1}, .cuts = {4}}, "cuts: layer 4 cannot begin a stage");
  refused({.replicas = {1, 1}, .recompute = {true}}, "recompute: given for 1 stages, wanted 2");
  refused({.replicas = {2}, .ranks = {{0}}}, "stage 0 has 1 ranks, wanted 2", {2, 0});
  refused({.replicas = {2}, .ranks = {{0, 2}}}, "names rank 2, the job has 2", {2, 0});
  refused({.replicas = {2}, .ranks = {{0, 1}, {0}}}, "given for 2 stages, wanted 1", {2, 0});
  refused({.replicas = {2}}, "the job has 3 processes, the plan 2 stage replicas", {3, 0});
}

TEST(SettlePlan, RefusesAPlanThatIsNotTheModels) {
  const auto net = chain(4);
  const auto refused = [&](auto change, const char* says) {
    auto p = *settle_request({.replicas = {1, 1}}, net);
    change(p);
    EXPECT_THAT([&] { settle_plan(p, net); }, ThrowsMessage<usage_error>(HasSubstr(says)));
  };
  refused([](auto& p) { p.stages.clear(); }, "the plan has no stages");
  refused([](auto& p) { p.stages[1].first_layer = "fc3"; }, "stage 1 begins at 'fc3', wanted 'fc2'");
  refused([](auto& p) { p.stages[1].last_layer = "fc9"; }, "no layer of the model");
  refused([](auto& p) { p.stages[1].in_flight = 3; }, "can deadlock");
  refused([](auto& p) { p.stages[0].replicas = 0; }, "wanted at least 1");
  refused([](auto& p) { p.stages[0].devices = {"cpu:0"}; }, "names no devices");
  refused([](auto& p) { p.schedule = "fbp-as"; }, "only be simulated");
  refused([](auto& p) { p.layer_order = {"fc1", "fc0", "fc2", "fc3"}; }, "not in the plan's order");
}

TEST(SettlePlan, SharesTheCoresAmongTheWorkersThatARankHosts) {
  const auto net = chain(4);
  const auto alone = settle_request({.replicas = {1}}, net);
  EXPECT_GE(alone->threads, 1);
  EXPECT_EQ(settle_request({.replicas = {4}}, net)->threads, std::max(1, alone->threads / 4));
  EXPECT_EQ(settle_request({.replicas = {3, 1}, .ranks = {{0, 0, 0}, {1}}}, net, {2, 1})->threads, alone->threads);
}

} // namespace
} // namespace penstock::actors
