// What freezing takes from a profile's costs, and what cannot be frozen.
#include "planner/profile/frozen_costs.hpp"
#include "tests/planner/profile/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

using ::testing::HasSubstr;

/// norm -> conv -> relu -> fc, of which conv and fc have weights; fc also reads norm.
profile small() {
  profile p{.model = "small", .input_bytes_per_sample = 8};
  p.layers = {{.name = "norm", .kind = "norm", .inputs = {-1}},
              {.name = "conv", .kind = "conv", .inputs = {0}, .weight_bytes = 100},
              {.name = "relu", .kind = "relu", .inputs = {1}},
              {.name = "fc", .kind = "linear", .inputs = {2, 0}, .weight_bytes = 40}};
  measurement m;
  for (std::size_t l = 0; l < p.layers.size(); ++l)
    m.layers.push_back({.forward_seconds = 1,
                        .backward_seconds = 2,
                        .accumulate_seconds = 0.25,
                        .output_bytes = 10,
                        .kept_output_bytes = 10,
                        .kept_bytes = 16,
                        .workspace_bytes = 3,
                        .backward_workspace_bytes = 5,
                        .weight_seconds = p.layers[l].weight_bytes > 0 ? 0.5 : 0,
                        .delayed_bytes = 7});
  m.update_seconds = {0, 3, 0, 2};
  p.measurements.push_back(m);
  return p;
}

TEST(FrozenCosts, AreForwardsAndWeightsAlone) {
  const auto p = frozen_costs(small(), 2);
  EXPECT_EQ(frozen_prefix(p), 2);
  EXPECT_EQ(p.layers[1].weight_bytes, 0);
  EXPECT_EQ(p.layers[1].frozen_bytes, 100);
  const auto& m = p.measurements.front();
  EXPECT_EQ(m.layers[1].forward_seconds, 1);
  EXPECT_EQ(m.layers[1].backward_seconds + m.layers[1].accumulate_seconds + m.layers[1].weight_seconds, 0);
  EXPECT_EQ(m.update_seconds, (std::vector<double>{0, 0, 0, 2}));
  EXPECT_EQ(m.layers[1].kept_bytes, 10) << "relu's backward reads its output, and nothing else of it is kept";
  EXPECT_EQ(m.layers[1].workspace_bytes, 3);
  EXPECT_EQ(m.layers[0].kept_bytes, 10) << "fc reads it";
  EXPECT_EQ(m.layers[1].backward_workspace_bytes + m.layers[1].delayed_bytes, 0);
  EXPECT_EQ(m.layers[1].output_bytes, 10);
}

TEST(FrozenCosts, WhatIsLetGoIsAliveWhileLayersRun) {
  const auto p = frozen_costs(small(), 3);
  const auto& m = p.measurements.front();
  EXPECT_EQ(m.layers[1].kept_bytes, 0);
  EXPECT_EQ(m.layers[1].workspace_bytes, 3 + 10) << "its output; its input is kept for fc";
  EXPECT_EQ(m.layers[2].workspace_bytes, 3 + 10) << "its input; its output is kept for fc";
}

TEST(FrozenCosts, TheFirstActiveLayersMakeNoInputGradient) {
  const auto p = frozen_costs(small(), 2);
  const auto& m = p.measurements.front();
  EXPECT_EQ(m.layers[2].backward_seconds, 0) << "it has no weights, and none are before it";
  EXPECT_EQ(m.layers[3].backward_seconds, 0.5);
  EXPECT_EQ(m.layers[3].weight_seconds, 0.5);
  auto untold = small();
  untold.measurements.front().layers[3].weight_seconds = 0;
  EXPECT_EQ(frozen_costs(untold, 2).measurements.front().layers[3].backward_seconds, 1) << "half, as usual";
}

TEST(FrozenCosts, OfNothingAreTheProfilesAndOfTheSameAreTheSame) {
  EXPECT_EQ(frozen_costs(small(), 0).measurements.front().layers[0].backward_seconds, 2);
  const auto once = frozen_costs(small(), 2);
  EXPECT_EQ(frozen_costs(once, 2).layers[1].frozen_bytes, 100);
  EXPECT_THAT(refusal([&] { frozen_costs(once, 3); }), HasSubstr("frozen at another depth already"));
}

TEST(FrozenCosts, RefuseWhatCannotBeFrozen) {
  EXPECT_EQ(refusal([] {
              frozen_costs(small(), std::vector<bool>{false, true, false, false});
            }),
            "'conv' cannot be frozen: it reads 'norm', which is not");
  EXPECT_EQ(refusal([] { frozen_costs(small(), 4); }),
            "nothing would be left to train: no layer of 'small' that is not frozen has weights");
  auto tied = small();
  tied.tied = {{1, 3}};
  EXPECT_EQ(refusal([&] { frozen_costs(tied, 2); }),
            "'conv' cannot be frozen: 'fc' trains a tensor of it; wanted at most all before it");
  EXPECT_EQ(frozen_costs(tied, 1).tied.size(), 1U);
  tied.tied = {{0, 1}};
  EXPECT_TRUE(frozen_costs(tied, 2).tied.empty());
  EXPECT_EQ(layers_before(small(), "relu"), 2);
  EXPECT_THAT(refusal([] { layers_before(small(), "norm"); }), HasSubstr("nothing would be before it"));
  EXPECT_EQ(refusal([] { layers_before(small(), "rel"); }),
            "frozen-until is 'rel', which is no layer of 'small' (did you mean 'relu'?)");
}

} // namespace
} // namespace penstock::planner::testing
