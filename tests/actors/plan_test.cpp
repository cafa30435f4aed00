// A run is its plan's: written down and read again it leaves the same bits, and the summary and the trace carry it.
#include "actors/trace/reader.hpp"
#include "kernels/check.hpp"
#include "planner/plan/plan.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<run_setup> setups() {
  std::vector<run_setup> all;
  const auto add = [&](const char* schedule, std::vector<int> replicas, int microbatches, const char* credits) {
    auto o = tiny_options();
    o.schedule = schedule;
    o.replicas = std::move(replicas);
    o.microbatches = microbatches;
    o.in_flight = planner::parse_in_flight(credits);
    o.eval_every = -1;
    o.epochs = 1;
    all.push_back(o);
  };
  add("pipedream", {1, 2, 1}, 0, "full");
  add("1f1b", {2, 1}, 3, "double");
  add("2bw", {1, 1}, 0, "tight");
  add("gpipe", {1, 1, 1}, 4, "tight");
  all.back().recompute = {true, false, true};
  all.front().window = 2;
  return all;
}

training_result train_plan(const planner::plan_ptr& plan, const run_setup& o) {
  const random_images train(44, {3, 8, 8}, 5, 11);
  actors::run_inputs inputs;
  inputs.net = tiny_residual_network();
  inputs.train = &train;
  training_result result;
  actors::run_control control;
  result.summary = actors::train(plan, o, inputs, result.seen, control);
  return result;
}

TEST(RunOfAPlan, FromItsFileIsTheSameRun) {
  const auto net = tiny_residual_network();
  for (const auto& o : setups()) {
    const auto plan = actors::settle_request(o, *net);
    planner::plan written;
    static_cast<planner::execution_plan&>(written) = *plan;
    const auto read =
        std::make_shared<const planner::plan>(planner::plan_from_json(planner::to_json(written), "plan.json"));
    const auto first = train_plan(plan, o);
    const auto again = train_plan(read, o);
    EXPECT_EQ(*first.summary.plan, *plan);
    EXPECT_EQ(*again.summary.plan, *plan);
    EXPECT_EQ(again.summary.weights_sha256, first.summary.weights_sha256) << o.schedule;
    EXPECT_EQ(again.summary.state_sha256, first.summary.state_sha256) << o.schedule;
  }
}

TEST(RunOfAPlan, StandsInItsTrace) {
  const testing_support::temporary_folder folder;
  for (auto o : setups()) {
    o.trace = folder / "run.pftrace";
    const auto plan = actors::settle_request(o, *tiny_residual_network());
    train_plan(plan, o);
    EXPECT_EQ(actors::read_trace(o.trace).header.plan, *plan) << o.schedule;
  }
}

TEST(RunOfAPlan, MayLeaveOpenWhatIsSettledForIt) {
  const auto net = tiny_residual_network();
  auto o = setups().front();
  o.in_flight = {};
  auto open = *actors::settle_request(o, *net);
  const auto settled = train_plan(std::make_shared<const planner::execution_plan>(open), o);
  open.microbatches = 0;
  for (auto& stage : open.stages)
    stage.in_flight = 0;
  const auto left_open = train_plan(std::make_shared<const planner::execution_plan>(open), o);
  EXPECT_EQ(*left_open.summary.plan, *settled.summary.plan);
  EXPECT_EQ(left_open.summary.weights_sha256, settled.summary.weights_sha256);
}

TEST(RunOfAPlan, NeedsOneThatIsTheModels) {
  const auto o = tiny_options();
  EXPECT_THAT([&] { train_plan(nullptr, o); }, ThrowsMessage<usage_error>(HasSubstr("no plan was given")));
  auto other = *actors::settle_request(o, *tiny_residual_network());
  other.stages[0].last_layer = "fc9";
  EXPECT_THAT([&] { train_plan(std::make_shared<const planner::execution_plan>(other), o); },
              ThrowsMessage<usage_error>(HasSubstr("'fc9', which is no layer of the model")));
}

} // namespace
} // namespace penstock::testing
