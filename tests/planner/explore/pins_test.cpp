// What a request may fix, and how it is refused.
#include "planner/explore/pins.hpp"
#include "tests/planner/explore/profiles.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

using indices = std::vector<int>;

profile blocks() {
  return chain_of({{"stem"}, {"block1.conv"}, {"block1.norm"}, {"block2.conv"}, {"block10.conv"}, {"head"}});
}

std::string refusal(const plan_request& request, int devices = 4) {
  return refusal_of([&] { resolve_pins(blocks(), flat_cluster(devices, 1e9), request); });
}

TEST(Pins, NameWholeBlocksAndRanges) {
  EXPECT_EQ(layers_named(blocks(), "block1"), (indices{1, 2}));
  EXPECT_EQ(layers_named(blocks(), "head"), (indices{5}));
  EXPECT_EQ(layers_named(blocks(), "block1.norm..block10.conv"), (indices{2, 3, 4}));
}

TEST(Pins, SuggestTheNearestName) {
  EXPECT_NE(refusal_of([] { layers_named(blocks(), "blok1"); }).find("did you mean 'block1'?"), std::string::npos);
  EXPECT_NE(refusal_of([] { layers_named(blocks(), "stem..haed"); }).find("did you mean 'head'?"), std::string::npos);
  EXPECT_NE(refusal({.first_layers = {"block2.con"}}).find("did you mean 'block2.conv'?"), std::string::npos);
  EXPECT_NE(refusal({.schedules = {"pipdream"}}).find("pipedream"), std::string::npos);
}

TEST(Pins, RefuseWhatContradictsItself) {
  EXPECT_EQ(refusal({.stages = 2, .replicas = {1, 1, 1}}),
            "replicas asks for 3 stages, stages for 2: wanted one number");
  EXPECT_EQ(refusal({.replicas = {1, 1}, .first_layers = {"block1.conv", "head"}}),
            "first layers asks for 3 stages, replicas for 2: wanted one number");
  EXPECT_EQ(refusal({.stages = 3, .in_flight = "2,1"}), "in-flight asks for 2 stages, stages for 3: wanted one number");
  EXPECT_EQ(refusal({.schedules = {"data-parallel"}, .stages = 2}), "data-parallel has one stage, found 2");
  EXPECT_NE(refusal({.schedules = {"pipedream"}, .synchronous_only = true}), "");
}

TEST(Pins, RefuseMicrobatchesThatNoChosenScheduleTakes) {
  EXPECT_NE(refusal({.batch = 8, .schedules = {"pipedream"}, .microbatches = {4}}).find("moves whole minibatches"),
            std::string::npos);
  EXPECT_EQ(refusal({.batch = 8, .schedules = {"pipedream", "1f1b"}, .microbatches = {4}}), "");
  EXPECT_EQ(refusal({.batch = 8, .schedules = {"pipedream"}, .microbatches = {1, 4}}), "");
}

TEST(Pins, RefuseCountsOutOfRange) {
  EXPECT_EQ(refusal({.batch = -1}), "batch is -1, wanted 1 to 1000000000");
  EXPECT_EQ(refusal({.stages = -1}), "stages is -1, wanted 0 to 6");
  EXPECT_EQ(refusal({.stages = 7}), "stages is 7, wanted 0 to 6");
  EXPECT_EQ(refusal({.stages = 3}, 2), "stages is 3, wanted at most the 2 devices");
  EXPECT_EQ(refusal({.replicas = {3, 2}}), "replicas: 5 over all stages, wanted at most the 4 devices");
  EXPECT_EQ(refusal({.replicas = {0, 2}}), "replicas of stage 0 is 0, wanted 1 to 4");
  EXPECT_EQ(refusal({.batch = 8, .microbatches = {16}}), "micro-batches is 16, wanted 1 to 8");
  EXPECT_EQ(refusal({.devices = 5}), "devices is 5, wanted 0 to 4");
  EXPECT_EQ(refusal({.optimizer_copies = -1}), "optimizer copies is -1, wanted 0 to 16");
  EXPECT_NE(refusal({.in_flight = "tigth"}), "");
}

TEST(Pins, RefuseCutsThatAreNoneOrOutOfOrder) {
  EXPECT_EQ(refusal({.first_layers = {"stem"}}), "first layers: 'stem' begins stage 0 already, wanted a later layer");
  EXPECT_EQ(refusal({.first_layers = {"head", "block2.conv"}}),
            "first layers: 'block2.conv' does not come after 'head', wanted them in the model's order");
  EXPECT_NE(refusal({.keep_together = {"head..stem"}}), "");
}

TEST(Pins, TakeTheLargestMeasuredSizeAsBatch) {
  EXPECT_EQ(resolve_pins(chain_of({{"a"}, {"b"}}, 24), flat_cluster(2, 1e9), {}).batch, 24);
}

TEST(Pins, OfferFbpOnlyToStreamingDevices) {
  EXPECT_NE(refusal({.schedules = {"fbp-as"}}), "");
  auto c = flat_cluster(2, 1e9);
  c.devices.front().streaming = streaming_device{
      .multipliers = 100, .clock_hz = 1e8, .efficiency = 1, .on_chip_bytes = 1e6, .memory_bytes_per_s = 1e10};
  const auto fixed = resolve_pins(blocks(), c, {});
  EXPECT_NE(std::find(fixed.schedules.begin(), fixed.schedules.end(), "fbp-as"), fixed.schedules.end());
}

} // namespace
} // namespace penstock::planner::testing
