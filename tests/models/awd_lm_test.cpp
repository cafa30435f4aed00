// AWD-LSTM's sizes, names and losses as its published program has them.
#include "apps/models/registry.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

using testing::ElementsAre;

model awd(std::map<std::string, std::string> own = {}, double width = 1, double dropout = -1) {
  model_options options;
  options.width = width;
  options.dropout = dropout;
  options.own = std::move(own);
  return find_model("awd_lm").build(options);
}

std::string refusal(std::map<std::string, std::string> own) {
  try {
    awd(std::move(own));
  } catch (const usage_error& e) {
    return e.what();
  }
  return "accepted";
}

std::vector<std::string> layer_names(const model& net) {
  std::vector<std::string> names;
  for (const auto& l : net.layers())
    names.push_back(l.name);
  return names;
}

std::map<std::string, parameter_spec> parameters_of(const model& net) {
  std::map<std::string, parameter_spec> all;
  for (int layer = 0; layer < static_cast<int>(net.layers().size()); ++layer)
    for (const auto& spec : net.parameters(layer))
      all.emplace(spec.name, spec);
  return all;
}

TEST(AwdLm, ParameterCountsAreThePublishedOnes) {
  EXPECT_EQ(awd().parameter_count(), 24'221'600);
  EXPECT_EQ(awd({{"layers", "6"}}).parameter_count(), 55'989'200);
  EXPECT_EQ(awd({{"untied", "yes"}}).parameter_count(), 24'221'600 + 400 * 10'000);
  EXPECT_EQ(awd({{"layers", "1"}}).parameter_count(), 400 * 10'000 + 10'000 + 4 * 400 * (400 + 400) + 8 * 400);
}

TEST(AwdLm, NamesShapesAndInitialValuesAreThoseOfThePublishedProgram) {
  const auto all = parameters_of(awd());
  const std::map<std::string, shape> shapes{{"encoder.weight", {10000, 400}},
                                            {"rnns.0.module.weight_ih_l0", {4600, 400}},
                                            {"rnns.0.module.weight_hh_l0_raw", {4600, 1150}},
                                            {"rnns.0.module.bias_ih_l0", {4600}},
                                            {"rnns.0.module.bias_hh_l0", {4600}},
                                            {"rnns.1.module.weight_ih_l0", {4600, 1150}},
                                            {"rnns.1.module.weight_hh_l0_raw", {4600, 1150}},
                                            {"rnns.1.module.bias_ih_l0", {4600}},
                                            {"rnns.1.module.bias_hh_l0", {4600}},
                                            {"rnns.2.module.weight_ih_l0", {1600, 1150}},
                                            {"rnns.2.module.weight_hh_l0_raw", {1600, 400}},
                                            {"rnns.2.module.bias_ih_l0", {1600}},
                                            {"rnns.2.module.bias_hh_l0", {1600}},
                                            {"decoder.bias", {10000}}};
  ASSERT_EQ(all.size(), shapes.size());
  for (const auto& [name, dims] : shapes) {
    ASSERT_TRUE(all.contains(name)) << name;
    EXPECT_EQ(all.at(name).dims, dims) << name;
  }
  EXPECT_FLOAT_EQ(all.at("encoder.weight").init.value, 0.1F);
  EXPECT_FLOAT_EQ(all.at("rnns.1.module.weight_hh_l0_raw").init.value, 1 / std::sqrt(1150.0F));
  EXPECT_FLOAT_EQ(all.at("rnns.2.module.bias_hh_l0").init.value, 0.05F);
  EXPECT_EQ(all.at("decoder.bias").init.value, 0);
  EXPECT_EQ(awd().aliases(), (std::map<std::string, std::string>{{"decoder.weight", "encoder.weight"}}));
}

TEST(AwdLm, WidthScalesBothSizesAndNotTheVocabulary) {
  const auto all = parameters_of(awd({}, 0.25));
  EXPECT_EQ(all.at("encoder.weight").dims, (shape{10000, 104}));
  EXPECT_EQ(all.at("rnns.0.module.weight_ih_l0").dims, (shape{4 * 288, 104}));
}

TEST(AwdLm, EachDropoutHasItsPlaceAndWhatDropsNothingIsNoLayer) {
  EXPECT_THAT(layer_names(awd()), ElementsAre("encoder", "lockdrop.input", "rnns.0.module", "lockdrop.0",
                                              "rnns.1.module", "lockdrop.1", "rnns.2.module", "lockdrop.2", "decoder"));
  EXPECT_THAT(layer_names(awd({}, 1, 0)),
              ElementsAre("encoder", "rnns.0.module", "rnns.1.module", "rnns.2.module", "decoder"));
  EXPECT_THAT(
      layer_names(awd({{"dropouth", "0.1"}}, 1, 0)),
      ElementsAre("encoder", "rnns.0.module", "lockdrop.0", "rnns.1.module", "lockdrop.1", "rnns.2.module", "decoder"));
}

TEST(AwdLm, ThePenaltiesReadTheLastLstmDroppedAndUndroppedInTrainingAlone) {
  const auto net = awd();
  EXPECT_THAT(net.counts(), ElementsAre("samples", "tokens"));
  ASSERT_EQ(net.losses().size(), 3U);
  const auto& [loss, ar, tar] = std::tie(net.losses()[0], net.losses()[1], net.losses()[2]);
  EXPECT_EQ(net.counts()[loss.count], "tokens");
  EXPECT_EQ(net.value(ar.inputs[0]).name, "lockdrop.2");
  EXPECT_EQ(net.value(tar.inputs[0]).name, "rnns.2.module");
  EXPECT_EQ(ar.options.weight, 2);
  EXPECT_EQ(tar.options.weight, 1);
  EXPECT_TRUE(ar.options.training_only && tar.options.training_only && !loss.options.training_only);
  EXPECT_EQ(awd({{"alpha", "0"}, {"beta", "0"}}).losses().size(), 1U);
}

TEST(AwdLm, RefusesOptionsByName) {
  EXPECT_EQ(refusal({{"layers", "0"}}), "--layers: found '0', wanted a whole number from 1 to 64");
  EXPECT_EQ(refusal({{"layers", "3.5"}}), "--layers: found '3.5', wanted a whole number from 1 to 64");
  EXPECT_EQ(refusal({{"wdrop", "1"}}), "--wdrop: found '1', wanted a number from 0 to less than 1");
  EXPECT_EQ(refusal({{"dropouti", "nan"}}), "--dropouti: found 'nan', wanted a number from 0 to less than 1");
  EXPECT_EQ(refusal({{"alpha", "-1"}}), "--alpha: found '-1', wanted a number from 0 to 1e+06");
}

// -- weights ----------------------------------------------------------------------------------------------------------

safetensors_contents file_of(memory_pool& pool, const model& net) {
  safetensors_contents file;
  for (const auto& [name, spec] : parameters_of(net))
    file.tensors.emplace(name, tensor::allocate(pool, dtype::f32, spec.dims, memory_use::scratch));
  return file;
}

TEST(AwdLm, TakesFilesOfTheTiedModelAndOfThePublishedProgram) {
  memory_pool pool;
  const auto tied = awd({}, 0.02), untied = awd({{"untied", "yes"}}, 0.02);
  auto file = file_of(pool, tied);
  file.tensors["rnns.0.module.weight_hh_l0"] = file.tensors.at("rnns.0.module.weight_hh_l0_raw");
  file.tensors["decoder.weight"] = file.tensors.at("encoder.weight");
  const auto& adapt = find_model("awd_lm").adapt_weights;
  adapt(tied, file);
  take_aliases(tied, file);
  EXPECT_EQ(file.tensors.size(), parameters_of(tied).size()) << "one table, no masked copy";
  adapt(untied, file);
  EXPECT_EQ(file.tensors.at("decoder.weight").raw(), file.tensors.at("encoder.weight").raw());
  EXPECT_EQ(file.tensors.size(), parameters_of(untied).size());
}

} // namespace
} // namespace penstock::apps
