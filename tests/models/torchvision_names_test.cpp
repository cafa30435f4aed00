// Every model has torchvision's parameters: names, shapes, order-free counts and the spread of the initialisers.
#include "apps/models/registry.hpp"
#include "kernels/check.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

namespace penstock::apps {
namespace {

class TorchvisionNames : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    std::ifstream file(PENSTOCK_MODELS_TEST_DIR "/torchvision_names.json");
    ASSERT_TRUE(file) << "torchvision_names.json is part of the repository";
    expected_ = nlohmann::json::parse(file).at(GetParam());
    model_options options;
    options.classes = expected_.at("classes");
    network_.emplace(find_model(GetParam()).build(options));
  }

  std::map<std::string, parameter_spec> parameters() const {
    std::map<std::string, parameter_spec> found;
    for (int layer = 0; layer < static_cast<int>(network_->layers().size()); ++layer)
      for (const auto& spec : network_->parameters(layer))
        found.emplace(spec.name, spec);
    return found;
  }

  nlohmann::json expected_;
  std::optional<model> network_;
};

double mean_of(const initializer& init) {
  return init.kind == initializer_kind::constant ? init.value : 0;
}

double deviation_of(const initializer& init) {
  switch (init.kind) {
  case initializer_kind::constant:
    return 0;
  case initializer_kind::uniform:
    return init.value / std::sqrt(3.0);
  case initializer_kind::normal:
  case initializer_kind::truncated_normal: // torchvision cuts many deviations out
    return init.value;
  }
  return 0;
}

TEST_P(TorchvisionNames, ParametersAreTorchvisions) {
  const auto found = parameters();
  for (const auto& [name, value] : expected_.at("parameters").items()) {
    const auto it = found.find(name);
    if (it == found.end()) {
      ADD_FAILURE() << "missing " << name;
      continue;
    }
    EXPECT_EQ(it->second.dims, value.at(0).get<shape>()) << name;
  }
  EXPECT_EQ(found.size(), expected_.at("parameters").size());
}

TEST_P(TorchvisionNames, StatesAreTorchvisions) {
  std::map<std::string, shape> found;
  for (int layer = 0; layer < static_cast<int>(network_->layers().size()); ++layer)
    for (const auto& spec : network_->states(layer))
      found.emplace(spec.name, spec.dims);
  EXPECT_EQ(found, (expected_.at("states").get<std::map<std::string, shape>>()));
}

// The fixture holds mean and deviation of what torchvision drew once, so both are compared within five standard errors.
TEST_P(TorchvisionNames, InitialisersAreTorchvisions) {
  for (const auto& [name, spec] : parameters()) {
    const auto& drawn = expected_.at("parameters").at(name);
    const auto n = static_cast<double>(element_count(spec.dims));
    const double deviation = deviation_of(spec.init);
    EXPECT_NEAR(drawn.at(1).get<double>(), mean_of(spec.init), 1e-9 + 5 * deviation / std::sqrt(n)) << name;
    EXPECT_NEAR(drawn.at(2).get<double>(), deviation, deviation * (1e-3 + 5 / std::sqrt(2 * n))) << name;
  }
}

TEST_P(TorchvisionNames, NormsAndBiasesAreMarkedForDecay) {
  for (const auto& [name, spec] : parameters())
    EXPECT_EQ(spec.norm_or_bias, spec.dims.size() == 1) << name; // so are a transformer's token and positions decayed
}

INSTANTIATE_TEST_SUITE_P(Models, TorchvisionNames,
                         testing::Values("lenet", "alexnet", "vgg11", "vgg16", "resnet18", "resnet50", "inception_v3",
                                         "vit_b_16"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ModelSizes, ParameterCountsAreTheKnownOnes) {
  model_options options;
  options.classes = 1000;
  const auto count = [&](const char* name) { return find_model(name).build(options).parameter_count(); };
  EXPECT_EQ(count("alexnet"), 61'100'840);
  EXPECT_EQ(count("vgg11"), 132'863'336);
  EXPECT_EQ(count("vgg16"), 138'357'544);
  EXPECT_EQ(count("resnet18"), 11'689'512);
  EXPECT_EQ(count("resnet50"), 25'557'032);
  EXPECT_EQ(count("vit_b_16"), 86'567'656);
  EXPECT_EQ(count("inception_v3"), 27'161'264);
  options.own["no-aux"] = "yes";
  EXPECT_EQ(count("inception_v3"), 23'834'568);
  options.classes = 10;
  EXPECT_EQ(find_model("lenet").build(options).parameter_count(), 61'706);
}

TEST(ModelSizes, InceptionsAuxiliaryHeadIsThereWhereItFits) {
  model_options options;
  options.image_size = 299;
  EXPECT_EQ(find_model("inception_v3").build(options).losses().size(), 2U);
  options.image_size = 298;
  EXPECT_EQ(find_model("inception_v3").build(options).losses().size(), 1U);
  const auto whole = find_model("inception_v3").build({});
  std::size_t parameters = 0, states = 0;
  for (int layer = 0; layer < static_cast<int>(whole.layers().size()); ++layer) {
    parameters += whole.parameters(layer).size();
    states += whole.states(layer).size();
  }
  EXPECT_EQ(parameters, 292U);
  EXPECT_EQ(parameters + states, 580U);
}

TEST(ModelSizes, AnEvaluationLeavesInceptionsAuxiliaryHeadOut) {
  const auto whole = find_model("inception_v3").build({});
  int left_out = 0;
  for (int layer = 0; layer < static_cast<int>(whole.layers().size()); ++layer) {
    const auto& name = whole.layers()[static_cast<std::size_t>(layer)].name;
    EXPECT_EQ(whole.is_evaluated(layer), !name.starts_with("AuxLogits")) << name;
    left_out += whole.is_evaluated(layer) ? 0 : 1;
  }
  EXPECT_GT(left_out, 5);
}

TEST(ModelSizes, InceptionsInputTransformHasNoParameters) {
  model_options options;
  options.image_size = 75;
  const auto plain = find_model("inception_v3").build(options);
  options.own["transform-input"] = "yes";
  const auto transformed = find_model("inception_v3").build(options);
  EXPECT_EQ(transformed.layers().front().op->kind(), "scale_channels");
  EXPECT_EQ(transformed.layers().size(), plain.layers().size() + 1);
  EXPECT_EQ(transformed.parameter_count(), plain.parameter_count());
  options.channels = 1;
  EXPECT_THROW(find_model("inception_v3").build(options), usage_error);
}

} // namespace
} // namespace penstock::apps
