// A pipeline that runs only to be timed: any shape, no files, over when it should be.
#include "actors/profiler/time_steps.hpp"
#include "kernels/check.hpp"
#include "tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace penstock::testing {
namespace {

run_setup shaped(const std::string& schedule, std::vector<int> replicas, int microbatches = 0) {
  run_setup o;
  o.schedule = schedule;
  o.replicas = std::move(replicas);
  o.microbatches = microbatches;
  o.batch = 8;
  o.threads = 1;
  return o;
}

double time(const run_setup& o, const actors::timing_options& how) {
  const auto net = tiny_residual_network();
  return actors::time_steps(actors::settle_request(o, *net), o, net, nullptr, how);
}

TEST(TimeSteps, TimesEveryShapeWithoutTouchingAFile) {
  std::int64_t number = 0;
  for (auto o : {shaped("pipedream", {1}), shaped("pipedream", {1, 1}), shaped("pipedream", {2, 1}),
                 shaped("1f1b", {1, 1}, 4), shaped("2bw", {1, 1}), shaped("data-parallel", {2})}) {
    o.checkpoint = "/nowhere/checkpoint"; // of the run that the timing is for
    o.weights = "/nowhere/weights.safetensors";
    o.trace = "/nowhere/trace";
    o.resume = true;
    o.lr.name = "cosine";
    const auto seconds = time(o, {.seconds = 0.01, .number = number++});
    EXPECT_GT(seconds, 0) << o.schedule;
    EXPECT_LT(seconds, 60) << o.schedule;
  }
}

TEST(TimeSteps, IsOverWhenTheTimeIsUpThoughThePipelineIsNotFull) {
  auto o = shaped("pipedream", {1, 1});
  o.in_flight = planner::parse_in_flight("64,1");
  EXPECT_GT(time(o, {.seconds = 1e6, .most_seconds = 0}), 0);
}

TEST(TimeSteps, GivesUpWhenAskedTo) {
  std::atomic<int> asked{0};
  const actors::timing_options how{.seconds = 1e6, .should_stop = [&asked] { return ++asked > 40; }};
  EXPECT_THROW(time(shaped("pipedream", {1, 1}), how), error);
  EXPECT_GT(asked, 40);
}

} // namespace
} // namespace penstock::testing
