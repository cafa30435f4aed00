// The planner and the interleaved schedule: chunks, positions, memory, and how far it gets.
#include "planner/explore/explore.hpp"
#include "tests/planner/explore/profiles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

using ::testing::HasSubstr;

profile even_chain(double weight_bytes = 0, double output_bytes = 0) {
  std::vector<layer_of> layers;
  for (int i = 0; i < 8; ++i)
    layers.push_back({"layer" + std::to_string(i), 1, output_bytes, weight_bytes});
  return chain_of(layers);
}

TEST(InterleavedProposals, WinAmongFlushedPipelinesByAShorterBubble) {
  const auto best =
      make_plan(even_chain(), flat_cluster(2, 1e12),
                {.batch = 8, .schedules = {"1f1b", "gpipe", "interleaved"}, .stages = 2, .replicas = {1, 1}});
  EXPECT_EQ(best.schedule, "interleaved") << best.reason;
  EXPECT_EQ(best.chunks, 4);
  EXPECT_EQ(best.microbatches, 8);
  ASSERT_EQ(best.stages.size(), 8U);
  for (std::size_t s = 0; s < 8; ++s)
    EXPECT_EQ(best.stages[s].devices, best.stages[s % 2].devices);
  EXPECT_EQ(workers_of(best), 2);
  // Eight micro-batches of four chunks of 3 s each, and one chunk to fill and empty.
  EXPECT_NEAR(best.predicted->step_seconds, 8 * 12 + 3, 1e-6);
  EXPECT_NEAR(best.predicted->speedup_over_one_device, 8 * 24 / 99.0, 1e-6);
  EXPECT_NEAR(best.predicted->bubble, 1 - 96 / 99.0, 1e-6) << "a worker's, over all its chunks";
  check_plan(best);
}

TEST(InterleavedProposals, KeepWhatIsPinned) {
  const auto best = make_plan(even_chain(), flat_cluster(4, 1e12),
                              {.batch = 8, .schedules = {"interleaved"}, .stages = 2, .chunks = 2, .replicas = {2, 2}});
  EXPECT_EQ(best.chunks, 2);
  EXPECT_EQ(describe_stages(best),
            "layer0..layer1 x2 | layer2..layer3 x2 | layer4..layer5 x2 | layer6..layer7 x2, 2 chunks a worker");
  const auto cut = make_plan(
      even_chain(), flat_cluster(2, 1e12),
      {.batch = 4, .schedules = {"interleaved"}, .chunks = 2, .first_layers = {"layer1", "layer2", "layer3"}});
  EXPECT_EQ(cut.stages.back().first_layer, "layer3");
}

TEST(InterleavedProposals, BelievesInMemoryOfAllChunksOfAWorker) {
  auto c = flat_cluster(2, 1e12);
  c.devices.front().memory_bytes = 1e9; // a layer has 3 x 100 MB of weights, gradients and optimizer state
  const plan_request request{.batch = 4, .schedules = {"interleaved"}, .allow_recompute = false};
  EXPECT_THAT(refusal_of([&] { make_plan(even_chain(100e6), c, request); }), HasSubstr("on worker 0"));
  EXPECT_EQ(make_plan(even_chain(60e6), c, request).schedule, "interleaved");
}

TEST(InterleavedProposals, RefuseWhatHasNoPlaceForThem) {
  auto two_types = flat_cluster(2, 1e12);
  two_types.devices.push_back(two_types.devices.front());
  two_types.devices.back().name = "other";
  two_types.levels.front().group = 4;
  EXPECT_THAT(refusal_of([&] { make_plan(even_chain(), two_types, {.batch = 4, .schedules = {"interleaved"}}); }),
              HasSubstr("interleaved is planned for devices of one type, found 2"));
  EXPECT_THAT(refusal_of([&] {
                make_plan(even_chain(), flat_cluster(2, 1e12),
                          {.batch = 4, .schedules = {"interleaved"}, .stages = 2, .chunks = 9});
              }),
              HasSubstr("chunks is 9, wanted 0 to 4"));
}

} // namespace
} // namespace penstock::planner::testing
