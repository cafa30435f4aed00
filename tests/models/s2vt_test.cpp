// S2VT's sizes, names, initial values and factors of the rate as published, and what is refused.
#include "apps/models/s2vt.hpp"
#include "kernels/check.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::apps {
namespace {

std::map<std::string, parameter_spec> parameters_of(const model& network) {
  std::map<std::string, parameter_spec> all;
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer)
    for (const auto& spec : network.parameters(layer))
      all.emplace(spec.name, spec);
  return all;
}

model s2vt(std::map<std::string, std::string> own = {}, double width = 1, std::int64_t vocabulary = 0) {
  model_options options;
  options.width = width;
  options.vocabulary = vocabulary;
  options.own = std::move(own);
  return find_model("s2vt").build(options);
}

TEST(S2vt, HasAsManyParametersAsPublished) {
  EXPECT_EQ(s2vt().parameter_count(), 87'358'668);
  const std::int64_t v = 90, f = 33, w = 128, h = 248;
  EXPECT_EQ(s2vt({{"frame-size", "33"}}, 0.25, v).parameter_count(),
            f * w + w + 4 * h * (w + h + 1) + v * w + 4 * h * (h + w + 1 + h + 1) + v * (h + 1));
}

TEST(S2vt, NamesShapesInitialValuesAndRatesArePublishedOnes) {
  const auto all = parameters_of(s2vt());
  struct wanted {
    shape dims;
    initializer_kind kind;
    float value;
    float rate;
  };
  constexpr auto uniform = initializer_kind::uniform, constant = initializer_kind::constant;
  const std::map<std::string, wanted> table{{"fc_frame.weight", {{500, 4096}, uniform, std::sqrt(3.0F / 4096), 1}},
                                            {"fc_frame.bias", {{500}, constant, 0.2F, 2}},
                                            {"lstm1.weight_xc", {{4000, 500}, uniform, 0.08F, 1}},
                                            {"lstm1.weight_hc", {{4000, 1000}, uniform, 0.08F, 1}},
                                            {"lstm1.bias_c", {{4000}, constant, 0, 1}},
                                            {"embed.weight", {{46'168, 500}, uniform, 0.08F, 1}},
                                            {"lstm2.weight_xc", {{4000, 1501}, uniform, 0.08F, 1}},
                                            {"lstm2.weight_hc", {{4000, 1000}, uniform, 0.08F, 1}},
                                            {"lstm2.bias_c", {{4000}, constant, 0, 1}},
                                            {"predict.weight", {{46'168, 1000}, uniform, 0.08F, 1}},
                                            {"predict.bias", {{46'168}, constant, 0, 2}}};
  EXPECT_EQ(all.size(), table.size());
  for (const auto& [name, spec] : table) {
    ASSERT_TRUE(all.contains(name)) << name;
    const auto& found = all.at(name);
    EXPECT_EQ(found.dims, spec.dims) << name;
    EXPECT_EQ(found.init.kind, spec.kind) << name;
    EXPECT_FLOAT_EQ(found.init.value, spec.value) << name;
    EXPECT_EQ(found.rate, spec.rate) << name;
  }
}

TEST(S2vt, LossIsTwentyTimesTheMeanOverWords) {
  const auto network = s2vt({}, 0.01, 11);
  ASSERT_EQ(network.losses().size(), 1U);
  EXPECT_EQ(network.losses()[0].options.weight, 20);
  EXPECT_EQ(network.losses()[0].options.counted_by, "tokens");
  EXPECT_EQ(network.extents()[0].nominal, 80);
}

TEST(S2vt, OneStepIsAModelOfItsOwnWithTheSameParameters) {
  const auto g = s2vt_geometry_of({.width = 0.01, .vocabulary = 11, .own = {{"frame-size", "5"}}});
  const auto one = s2vt_step(g);
  ASSERT_EQ(one.results().size(), 5U);
  EXPECT_EQ(one.value(one.results()[0]).spec.dims, (shape{1, 1, 11}));
  EXPECT_EQ(one.value(one.results()[4]).spec.dims, (shape{1, g.hidden}));
  const auto step = parameters_of(one);
  const auto whole = parameters_of(s2vt({{"frame-size", "5"}}, 0.01, 11));
  ASSERT_EQ(step.size(), whole.size());
  for (const auto& [name, spec] : whole)
    EXPECT_EQ(step.at(name).dims, spec.dims) << name;
}

TEST(S2vt, RefusesOptionsByName) {
  const auto refusal = [](std::map<std::string, std::string> own, double width) {
    try {
      s2vt(std::move(own), width);
    } catch (const usage_error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal({{"frame-size", "0"}}, 1), "--frame-size: found '0', wanted a whole number from 1 to 16777216");
  EXPECT_EQ(refusal({{"frame-size", "64x64"}}, 1),
            "--frame-size: found '64x64', wanted a whole number from 1 to 16777216");
  EXPECT_NE(refusal({}, 0), "accepted");
}

} // namespace
} // namespace penstock::apps
