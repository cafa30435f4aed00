// What freezes as a whole, of the models there are.
#include "actors/freeze/freeze_units.hpp"
#include "apps/models/registry.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"

#include <gtest/gtest.h>

namespace penstock::actors {
namespace {

model built(const std::string& name) {
  return apps::find_model(name).build({});
}

TEST(FreezeUnits, AreABlocksLayersAndTheHeadIsNone) {
  const auto net = built("vit_b_16");
  const freeze_units units(net);
  ASSERT_EQ(units.count(), 12);
  EXPECT_EQ(units.layers_at(0), 0);
  EXPECT_EQ(units.frozen_until(0), "");
  EXPECT_EQ(units.all()[0].first, 0) << "the patches freeze with the first block";
  EXPECT_EQ(units.frozen_until(1), "encoder.layers.encoder_layer_1.ln_1");
  EXPECT_EQ(units.frozen_until(12), "encoder.ln");
}

TEST(FreezeUnits, OfAResnetAreItsStemAndItsBlocks) {
  const auto eighteen = built("resnet18");
  const freeze_units units(eighteen);
  ASSERT_EQ(units.count(), 9);
  EXPECT_EQ(units.all()[0].name, "conv1");
  EXPECT_EQ(units.frozen_until(1), "layer1.0.conv1");
  EXPECT_EQ(units.frozen_until(9), "avgpool");
  const auto fifty = built("resnet50");
  EXPECT_EQ(freeze_units(fifty).count(), 17);
}

TEST(FreezeUnits, WithoutMarksAreTheLayersThatLearn) {
  const auto net = built("lenet");
  const freeze_units units(net);
  ASSERT_EQ(units.count(), 4);
  EXPECT_EQ(units.frozen_until(1), "conv2") << "what learns nothing freezes with what is before it";
  EXPECT_EQ(units.frozen_until(4), "fc3");
}

TEST(FreezeUnits, OfEveryModelAscendAndLeaveTheHead) {
  for (const auto* entry : apps::all_models()) {
    const auto net = built(entry->name);
    const freeze_units units(net);
    ASSERT_GE(units.count(), 3) << entry->name;
    int before = 0;
    std::int64_t parameters = 0;
    for (int d = 1; d <= units.count(); ++d) {
      EXPECT_EQ(units.all()[static_cast<std::size_t>(d) - 1].first, before) << entry->name;
      EXPECT_GT(units.layers_at(d), before) << entry->name;
      before = units.layers_at(d);
      parameters += units.all()[static_cast<std::size_t>(d) - 1].parameters;
      EXPECT_EQ(units.depth_within(before), d);
      EXPECT_EQ(units.depth_within(before - 1), d - 1);
    }
    EXPECT_LT(before, static_cast<int>(net.layers().size())) << entry->name;
    EXPECT_EQ(parameters, net.parameter_count(0, before)) << entry->name;
  }
}

TEST(FreezeUnits, StopBeforeATensorThatActiveLayersUseToo) {
  model_builder b("tied");
  const auto time = b.extent("time", 4);
  const auto ids = b.input("ids", dtype::i64, {time}, {.below = 8});
  auto x = b.add("front", layers::embedding(8, 8, {}), {ids});
  x = b.add("table", layers::linear({.in_features = 8, .out_features = 8}), {x});
  x = b.add("body", layers::linear({.in_features = 8, .out_features = 8}), {x});
  x = b.add("head", layers::linear({.in_features = 8, .out_features = 8}), {x}, {{"weight", "table.weight"}});
  const auto net = b.build_inference(x);
  const freeze_units units(net);
  ASSERT_EQ(units.count(), 3);
  EXPECT_EQ(units.deepest(1), 1);
  EXPECT_EQ(units.deepest(3), 1);
  EXPECT_EQ(units.held_by(3), "table.weight");
  EXPECT_EQ(units.held_by(1), "");
}

} // namespace
} // namespace penstock::actors
