// Which plan is taken of those that were run, and what is said of it.
#include "apps/runner/apply_plan.hpp"
#include "apps/runner/plan_trials.hpp"
#include "apps/runner/plan_words.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<contender> with(const std::vector<std::vector<double>>& seconds, int workers = 2) {
  std::vector<contender> all;
  for (const auto& s : seconds) {
    all.push_back({.plan = {}, .seconds = s});
    all.back().plan.stages.push_back({.first_layer = "f", .last_layer = "l", .replicas = workers});
  }
  return all;
}

std::vector<bool> given_up(std::vector<contender> all) {
  drop_slower(all);
  std::vector<bool> out;
  for (const auto& c : all)
    out.push_back(c.is_out);
  return out;
}

TEST(PlanTrials, TakeTheLeastMedianNotTheLeastRound) {
  EXPECT_EQ(fastest_of(with({{1.0, 1.0, 1.0}, {0.5, 1.2, 1.3}})), 0);
  EXPECT_EQ(fastest_of(with({{1.0, 1.0, 1.0}, {0.8, 0.8, 9.0}})), 1);
}

TEST(PlanTrials, TakeTheSimplerOfEquals) {
  EXPECT_EQ(fastest_of(with({{1.0}, {0.99}, {0.995}})), 0) << "differences below the tie are none";
  EXPECT_EQ(fastest_of(with({{1.0}, {0.9}, {0.899}})), 1);
}

TEST(PlanTrials, NeverTakeOneThatIsSlowerThanTheFirstAsRun) {
  for (const double other : {0.5, 0.9, 0.98, 0.99, 1.0, 1.01, 1.02, 1.5}) {
    const auto all = with({{1.0, 1.0, 1.0}, {other, other, other}});
    EXPECT_LE(all[static_cast<std::size_t>(fastest_of(all))].median(), all[0].median()) << other;
  }
}

TEST(PlanTrials, TakeNoneThatWasNotRun) {
  EXPECT_EQ(fastest_of(with({{}, {2.0}, {}})), 1);
  EXPECT_EQ(fastest_of(with({{}})), -1);
}

TEST(PlanTrials, GiveUpOnlyWhatIsClearlySlower) {
  EXPECT_THAT(given_up(with({{1.0}, {9.0}, {11.0}}, 8)), ElementsAre(false, false, true));
  EXPECT_THAT(given_up(with({{1.0, 1.1}, {2.1, 2.5}, {2.4, 2.3}})), ElementsAre(false, false, true));
  EXPECT_THAT(given_up(with({{1.0, 1.0, 1.0}, {1.2, 1.3, 1.3}, {1.3, 1.3, 1.3}})), ElementsAre(false, false, true));
  EXPECT_THAT(given_up(with({{1, 1, 1, 1}, {1.2, 1.05, 1.2, 1.2}, {1.2, 1.2, 1.2, 1.2}})),
              ElementsAre(false, false, true))
      << "one good round may be the truth";
  EXPECT_THAT(given_up(with({{9.0, 1.0, 1.0}, {1.2, 1.2, 1.2}})), ElementsAre(false, false))
      << "a leader that was disturbed gives nobody up";
}

TEST(PlanTrials, RunOnWhatIsSlowerThanCoresExplain) {
  EXPECT_THAT(given_up(with({{9.0, 8.0}, {0.1, 0.1}, {0.3, 0.3}})), ElementsAre(false, false, true))
      << "what takes 80 times as long was disturbed";
  EXPECT_THAT(given_up(with({{9.0, 0.15, 0.3}, {0.1, 0.1, 0.1}})), ElementsAre(true, false))
      << "its best round counts against it";
  EXPECT_THAT(given_up(with({{9.0}, {0.1}}, 64)), ElementsAre(true, false)) << "64 cores explain 90 times";
}

TEST(PlanTrials, CountTheCoresOfTheLargest) {
  EXPECT_EQ(most_cores({}), 1);
  auto all = with({{1.0}, {1.0}}, 3);
  all[1].plan.threads = 4;
  EXPECT_EQ(most_cores(all), 12);
}

planner::plan plan_with(const std::string& schedule, const std::vector<int>& replicas, int microbatches = 0) {
  planner::plan p;
  p.schedule = schedule;
  p.microbatches = microbatches;
  p.threads = 1;
  for (std::size_t s = 0; s < replicas.size(); ++s)
    p.stages.push_back(
        {.first_layer = "f" + std::to_string(s), .last_layer = "l" + std::to_string(s), .replicas = replicas[s]});
  return p;
}

TEST(PlanWords, SayHowStaleAnUpdateIsAndWhatItIsTheMeanOf) {
  EXPECT_EQ(update_text(plan_with("pipedream", {1})), "not stale");
  EXPECT_EQ(update_text(plan_with("pipedream", {1, 1})), "up to 1 update stale");
  EXPECT_EQ(update_text(plan_with("pipedream", {1, 1, 1})), "up to 2 updates stale");
  EXPECT_EQ(update_text(plan_with("pipedream", {2})), "not stale, 2 minibatches an update at stage 0");
  EXPECT_EQ(update_text(plan_with("pipedream", {3, 1, 3})),
            "up to 3 updates stale, 3 minibatches an update at stage 0, 2");
  EXPECT_EQ(update_text(plan_with("1f1b", {2, 1}, 4)), "not stale");
  EXPECT_EQ(update_text(plan_with("data-parallel", {2})), "not stale");
  EXPECT_EQ(update_text(plan_with("2bw", {1, 1, 1})), "up to 1 update stale");
  auto deeper = plan_with("pipedream", {1, 1});
  deeper.stages[0].in_flight = 4;
  EXPECT_EQ(update_text(deeper), "up to 3 updates stale");
}

TEST(PlanWords, NameWorkersAndThreads) {
  EXPECT_EQ(plan_line(plan_with("1f1b", {2, 1}, 4)),
            "f0..l0 x2 | f1..l1 x1, 1f1b, 4 micro-batches, 3 workers of 1 thread, not stale");
}

TEST(PartTeller, SaysWhatIsNewOnceAndPassesOnThatItIsOver) {
  std::vector<std::string> lines;
  bool goes_on = true;
  part_teller teller([&](const std::string& line) {
    if (!line.empty()) lines.push_back(line);
    return goes_on;
  });
  EXPECT_TRUE(teller.at("profiling", "0%"));
  EXPECT_TRUE(teller.at("profiling", "50%"));
  EXPECT_TRUE(teller.at("trying", ""));
  EXPECT_TRUE(teller.goes_on());
  EXPECT_THAT(lines, ElementsAre("profiling (0%)", "trying"));
  goes_on = false;
  EXPECT_FALSE(teller.goes_on());
  EXPECT_FALSE(teller.at("trying", ""));
}

// a, then b and c, which both read it, then their sum.
std::shared_ptr<const model> branching_network() {
  using namespace layers;
  model_builder b("branching", {4});
  const auto linear_of = [&](const char* name, value_id from) {
    return b.add(name, linear({.in_features = 4, .out_features = 4}), {from});
  };
  const auto a = linear_of("a", b.input());
  const auto left = linear_of("b", a);
  const auto right = linear_of("c", a);
  return std::make_shared<const model>(b.build(b.add("sum", layers::add(), {left, right})));
}

TEST(PlanTrials, RunPlansWithAnOrderOfTheirOwn) {
  planner::plan own;
  own.threads = 1;
  own.layer_order = {"a", "c", "b", "sum"};
  own.stages = {{.first_layer = "a", .last_layer = "c"}, {.first_layer = "b", .last_layer = "sum"}};
  auto models = own;
  models.layer_order.clear();
  models.stages = {{.first_layer = "a", .last_layer = "b"}, {.first_layer = "c", .last_layer = "sum"}};
  std::vector<contender> all{{.plan = own}, {.plan = models}};
  app_options options;
  options.run.batch = 8;
  part_teller teller([](const std::string&) { return true; });
  try_contenders(all, options, branching_network(), nullptr, teller);
  for (const auto& c : all)
    EXPECT_GT(c.median(), 0);
}

TEST(FittedPlan, HasTheModelInThePlansOrder) {
  planner::plan p;
  p.layer_order = {"a", "c", "b", "sum"};
  p.stages = {{.first_layer = "a", .last_layer = "c"}, {.first_layer = "b", .last_layer = "sum"}};
  const auto net = branching_network();
  const auto fitted = fit_plan(p, net, 2);
  EXPECT_EQ(fitted.net->layers()[1].name, "c");
  EXPECT_EQ(net->layers()[1].name, "b");
  EXPECT_EQ(fitted.plan.threads, 2);
  EXPECT_THAT(actors::first_layers_of(fitted.plan, *fitted.net), ElementsAre(0, 2));
  EXPECT_THROW(actors::settle_plan(fitted.plan, *net), usage_error) << "the model in another order";
}

} // namespace
} // namespace penstock::apps
