// What a person may ask of a model, what is refused and how, and what crosses the cuts of a residual network.
#include "apps/models/describe.hpp"
#include "apps/models/registry.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

model build(const char* name, const model_options& options = {}) {
  return find_model(name).build(options);
}

std::string refusal(const char* name, const model_options& options) {
  try {
    build(name, options);
  } catch (const usage_error& e) {
    return e.what();
  }
  return "accepted";
}

model_options image(std::int64_t size) {
  model_options options;
  options.image_size = size;
  return options;
}

std::map<std::string, shape> parameter_shapes(const model& network) {
  std::map<std::string, shape> shapes;
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer)
    for (const auto& spec : network.parameters(layer))
      shapes.emplace(spec.name, spec.dims);
  return shapes;
}

int layer_named(const model& network, const std::string& name) {
  const auto& layers = network.layers();
  const auto it = std::find_if(layers.begin(), layers.end(), [&](const auto& l) { return l.name == name; });
  EXPECT_NE(it, layers.end()) << name;
  return static_cast<int>(it - layers.begin());
}

std::vector<std::string> crossing(const model& network, int cut) {
  std::vector<std::string> names;
  for (const auto id : network.crossing(cut))
    names.push_back(network.value(id).name);
  return names;
}

// -- sizes ------------------------------------------------------------------------------------------------------------

TEST(ModelSizes, SmallestImagePassesAndOneLessIsRefused) {
  for (const auto& entry : built_in_models()) {
    if (!entry.takes_images) continue;
    const auto network = entry.build(image(entry.minimum_image_size));
    EXPECT_EQ(network.value(network.output()).spec.dims, (shape{1, 10})) << entry.name;
    const auto text = refusal(entry.name.c_str(), image(entry.minimum_image_size - 1));
    EXPECT_THAT(text, testing::StartsWith(entry.name + ": ")) << entry.name;
    EXPECT_THAT(text, HasSubstr("is smaller than")) << entry.name;
  }
}

TEST(ModelSizes, RefusalNamesTheLayerThatCannotTakeTheImage) {
  EXPECT_EQ(refusal("vgg16", image(31)), "vgg16: features.30: input 1x1 is smaller than kernel 2x2");
  EXPECT_EQ(refusal("vgg11", image(31)), "vgg11: features.20: input 1x1 is smaller than kernel 2x2");
  EXPECT_EQ(refusal("alexnet", image(62)), "alexnet: features.12: input 2x2 is smaller than kernel 3x3");
  EXPECT_EQ(refusal("alexnet", image(63)),
            "alexnet: features.0: input 63x63 is smaller than 64x64, the least this network takes");
  EXPECT_EQ(refusal("lenet", image(27)),
            "lenet: conv1: input 27x27 is smaller than 28x28, the least this network takes");
  EXPECT_EQ(refusal("resnet18", image(31)),
            "resnet18: conv1: input 31x31 is smaller than 32x32, the least this network takes");
}

TEST(ModelSizes, OddAndLargeImagesPass) {
  for (const auto& entry : built_in_models()) {
    if (!entry.takes_images) continue;
    for (std::int64_t size : {65, 97, 150}) {
      if (entry.name == "vit_b_16") size -= size % 16; // whole patches
      EXPECT_EQ(entry.build(image(std::max(size, entry.minimum_image_size))).classes(), 10) << entry.name;
    }
  }
  EXPECT_EQ(build("resnet18", image(4096)).classes(), 10);
}

TEST(ModelSizes, VggKeepsItsClassifierAtSmallImages) {
  EXPECT_EQ(parameter_shapes(build("vgg16", image(32))).at("classifier.0.weight"), (shape{4096, 25088}));
}

TEST(ModelOptions, AbsurdOnesAreRefusedByName) {
  const auto with = [](auto set) {
    model_options options;
    set(options);
    return refusal("resnet18", options);
  };
  EXPECT_EQ(with([](auto& o) { o.image_size = 4097; }), "resnet18: image size 4097 is not in 1 to 4096");
  EXPECT_EQ(with([](auto& o) { o.image_size = -1; }), "resnet18: image size -1 is not in 1 to 4096");
  EXPECT_EQ(with([](auto& o) { o.classes = 0; }), "resnet18: number of classes 0 is not in 1 to 1000000");
  EXPECT_EQ(with([](auto& o) { o.classes = 2'000'000; }), "resnet18: number of classes 2000000 is not in 1 to 1000000");
  EXPECT_EQ(with([](auto& o) { o.channels = -3; }), "resnet18: number of input channels -3 is not in 1 to 64");
  for (const double width : {0.0, -1.0, 17.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(with([&](auto& o) { o.width = width; }), HasSubstr("is not above 0 and at most 16")) << width;
  for (const double rate : {1.0, 2.0, std::nan("")})
    EXPECT_THAT(with([&](auto& o) { o.dropout = rate; }), HasSubstr("is not below 1")) << rate;
}

// -- width ------------------------------------------------------------------------------------------------------------

TEST(ModelWidth, SizesAreMultiplesOfEightAndAtLeastEight) {
  model_options options;
  options.width = 0.3;
  options.classes = 7;
  for (const auto& entry : built_in_models()) {
    if (!entry.takes_images) continue;
    const auto network = entry.build(options);
    for (const auto& [name, dims] : parameter_shapes(network)) {
      if (dims[0] == 7 || dims.size() == 3) continue; // the head; a token and positions
      EXPECT_EQ(dims[0] % 8, 0) << entry.name << " " << name;
    }
    EXPECT_EQ(network.classes(), 7) << entry.name;
  }
  const auto shapes = parameter_shapes(build("resnet50", options));
  EXPECT_EQ(shapes.at("conv1.weight"), (shape{16, 3, 7, 7}));             // 19.2
  EXPECT_EQ(shapes.at("layer1.0.conv3.weight"), (shape{80, 16, 1, 1}));   // 76.8
  EXPECT_EQ(shapes.at("layer4.2.conv3.weight"), (shape{616, 152, 1, 1})); // 614.4 of 153.6
}

TEST(ModelWidth, VisionTransformersHaveMoreHeadsOfTheSameSize) {
  model_options options;
  options.width = 0.3;
  const auto shapes = parameter_shapes(build("vit_b_16", options));
  EXPECT_EQ(shapes.at("encoder.layers.encoder_layer_3.self_attention.in_proj_weight"), (shape{3 * 256, 256}));
  EXPECT_EQ(shapes.at("encoder.layers.encoder_layer_11.mlp.3.weight"), (shape{256, 1024}));
  options.width = 0.001;
  EXPECT_EQ(parameter_shapes(build("vit_b_16", options)).at("heads.head.weight"), (shape{10, 64}));
}

TEST(ModelSizes, VisionTransformersTakeWholePatches) {
  EXPECT_EQ(refusal("vit_b_16", image(72)), "vit_b_16: --image-size: found 72, wanted a multiple of the patches' 16");
  EXPECT_EQ(parameter_shapes(build("vit_b_16", image(64))).at("encoder.pos_embedding"), (shape{1, 17, 768}));
}

TEST(ModelOptions, VisionTransformersHaveHuggingFacesNamesToo) {
  model_options options;
  options.classes = 1000;
  options.own["names"] = "hf";
  const auto network = build("vit_b_16", options);
  const auto shapes = parameter_shapes(network);
  EXPECT_EQ(network.parameter_count(), 86'567'656);
  EXPECT_EQ(shapes.size(), 200U);
  EXPECT_EQ(shapes.at("vit.embeddings.cls_token"), (shape{1, 1, 768}));
  EXPECT_EQ(shapes.at("vit.embeddings.position_embeddings"), (shape{1, 197, 768}));
  EXPECT_EQ(shapes.at("vit.embeddings.patch_embeddings.projection.weight"), (shape{768, 3, 16, 16}));
  EXPECT_EQ(shapes.at("vit.encoder.layer.11.attention.attention.key.bias"), (shape{768}));
  EXPECT_EQ(shapes.at("vit.encoder.layer.0.intermediate.dense.weight"), (shape{3072, 768}));
  EXPECT_EQ(shapes.at("classifier.weight"), (shape{1000, 768}));
  options.own["names"] = "keras";
  EXPECT_EQ(refusal("vit_b_16", options), "--names: found 'keras', wanted torchvision or hf");
}

TEST(ModelOrder, TransformersFreezeBlockByBlockAndKeepAttentionAndResidualTogether) {
  const auto network = build("vit_b_16");
  ASSERT_EQ(network.freeze_units().size(), 13U);
  EXPECT_EQ(network.layers()[static_cast<std::size_t>(network.freeze_units()[1])].name,
            "encoder.layers.encoder_layer_1.ln_1");
  ASSERT_EQ(network.kept_together().size(), 24U);
  EXPECT_EQ(network.kept_together()[0].back(), "encoder.layers.encoder_layer_0.add_1");
}

TEST(ModelWidth, OneKeepsSizesThatAreNoMultiplesOfEight) {
  EXPECT_EQ(parameter_shapes(build("lenet")).at("conv1.weight"), (shape{6, 1, 5, 5}));
}

TEST(ModelWidth, NeverScalesClassesOrInputChannels) {
  model_options options;
  options.width = 2;
  options.channels = 1;
  options.classes = 3;
  const auto shapes = parameter_shapes(build("lenet", options));
  EXPECT_EQ(shapes.at("conv1.weight"), (shape{16, 1, 5, 5})); // 12 is nearer to 16 than to 8, halves going up
  EXPECT_EQ(shapes.at("fc1.weight"), (shape{240, 32 * 25}));
  EXPECT_EQ(shapes.at("fc3.weight"), (shape{3, 168}));
}

TEST(ModelWidth, NarrowestResnetKeepsItsDownsamples) {
  model_options options;
  options.width = 0.01;
  const auto shapes = parameter_shapes(build("resnet18", options));
  EXPECT_EQ(shapes.at("layer4.0.downsample.0.weight"), (shape{8, 8, 1, 1}));
  EXPECT_EQ(shapes.count("layer1.0.downsample.0.weight"), 0U);
}

// -- structure --------------------------------------------------------------------------------------------------------

TEST(ModelOrder, ResidualBlockIsBodyThenDownsampleThenAdd) {
  const auto network = build("resnet18");
  const auto first = layer_named(network, "layer2.0.conv1");
  std::vector<std::string> names;
  for (int i = first; i < first + 9; ++i)
    names.push_back(network.layers()[static_cast<std::size_t>(i)].name);
  EXPECT_THAT(names, ElementsAre("layer2.0.conv1", "layer2.0.bn1", "layer2.0.relu1", "layer2.0.conv2", "layer2.0.bn2",
                                 "layer2.0.downsample.0", "layer2.0.downsample.1", "layer2.0.add", "layer2.0.relu2"));
}

TEST(ModelCuts, SkipConnectionIsRelayedAcrossEveryCutOfItsBlock) {
  const auto network = build("resnet18");
  const auto first = layer_named(network, "layer1.1.conv1"); // a block without downsample
  EXPECT_THAT(crossing(network, first), ElementsAre("layer1.0.relu2"));
  const std::vector<std::string> body{"conv1", "bn1", "relu1", "conv2", "bn2"};
  for (std::size_t i = 0; i < body.size(); ++i) {
    EXPECT_THAT(crossing(network, first + 1 + static_cast<int>(i)),
                ElementsAre("layer1.0.relu2", "layer1.1." + body[i]));
  }
  EXPECT_THAT(crossing(network, layer_named(network, "layer1.1.relu2")), ElementsAre("layer1.1.add"));
  EXPECT_THAT(crossing(network, layer_named(network, "layer2.0.conv1")), ElementsAre("layer1.1.relu2"));
}

TEST(ModelCuts, DownsampleTakesTheSkipConnectionsPlace) {
  const auto network = build("resnet50");
  EXPECT_THAT(crossing(network, layer_named(network, "layer2.0.downsample.0")),
              ElementsAre("layer1.2.relu3", "layer2.0.bn3"));
  EXPECT_THAT(crossing(network, layer_named(network, "layer2.0.downsample.1")),
              ElementsAre("layer2.0.bn3", "layer2.0.downsample.0"));
  EXPECT_THAT(crossing(network, layer_named(network, "layer2.0.add")),
              ElementsAre("layer2.0.bn3", "layer2.0.downsample.1"));
}

TEST(ModelCuts, ChainIsCutThroughOneValue) {
  const auto network = build("vgg11");
  for (int cut = 1; cut < static_cast<int>(network.layers().size()); ++cut)
    EXPECT_THAT(crossing(network, cut), ElementsAre(network.layers()[static_cast<std::size_t>(cut) - 1].name));
  EXPECT_THAT(crossing(network, 0), ElementsAre()) << "the source feeds the input to the stage that reads it";
}

// -- registry and listing ---------------------------------------------------------------------------------------------

TEST(ModelRegistry, UnknownNameSuggestsTheNearest) {
  try {
    find_model("resnet81");
    FAIL() << "found";
  } catch (const usage_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("did you mean 'resnet18'"));
    EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
  }
}

TEST(ModelRegistry, PlugInIsFoundAndTakenNamesAreRefused) {
  EXPECT_THROW(add_model({"vgg16", "", 28, 28, find_model("lenet").build}), usage_error);
  add_model({"plugged", "from a plug-in", 28, 28, find_model("lenet").build});
  EXPECT_EQ(find_model("plugged").summary, "from a plug-in");
  EXPECT_EQ(all_models().size(), built_in_models().size() + 1);
  EXPECT_THROW(add_model({"plugged", "", 28, 28, find_model("lenet").build}), usage_error);
}

TEST(ModelListing, NamesEveryModelWithItsSizes) {
  const auto text = describe_models();
  for (const auto& entry : built_in_models())
    EXPECT_THAT(text, HasSubstr("\n" + entry.name)) << text;
  EXPECT_THAT(text, HasSubstr("134,301,514")); // vgg16 with 10 classes
}

TEST(ModelListing, GivesEveryLayersShapeAndParameters) {
  const auto text = describe_model(build("lenet"));
  EXPECT_THAT(text, HasSubstr("lenet: input 1 x 28 x 28, 10 classes, 61,706 parameters"));
  EXPECT_THAT(text, HasSubstr("conv2"));
  EXPECT_THAT(text, HasSubstr("16 x 10 x 10"));
  EXPECT_THAT(text, HasSubstr("48,120"));
}

// Multiply-adds of torchvision's own table, which counts one each and leaves the small layers out.
TEST(ModelListing, OperationsAreTwiceTorchvisionsMultiplyAdds) {
  model_options options;
  options.classes = 1000;
  const auto giga = [&](const char* name) { return forward_flops(build(name, options)) * 1e-9 / 2; };
  EXPECT_NEAR(giga("alexnet"), 0.714, 0.01);
  EXPECT_NEAR(giga("vgg11"), 7.609, 0.08);
  EXPECT_NEAR(giga("vgg16"), 15.47, 0.15);
  EXPECT_NEAR(giga("resnet18"), 1.814, 0.04);
  EXPECT_NEAR(giga("resnet50"), 4.089, 0.08);
  EXPECT_NEAR(giga("vit_b_16"), 17.56, 0.2);
  EXPECT_NEAR(giga("inception_v3"), 5.713, 0.06);
}

} // namespace
} // namespace penstock::apps
