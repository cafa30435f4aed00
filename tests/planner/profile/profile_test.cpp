// What a profile may hold, and costs between the measured sizes.
#include "planner/profile/profile.hpp"
#include "tests/planner/profile/example_profile.hpp"
#include "tests/planner/profile/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace penstock::planner {
namespace {

using testing::HasSubstr;

template <class Change>
std::string refusal_after(const Change& change) {
  auto p = example_profile();
  change(p);
  return refusal([&] { check_profile(p); });
}

TEST(Profile, TheExampleIsRight) {
  EXPECT_EQ(refusal_after([](profile&) {}), "");
}

TEST(Profile, LayersAreChecked) {
  EXPECT_EQ(refusal_after([](profile& p) { p.layers.clear(); }), "the profile has no layers");
  EXPECT_EQ(refusal_after([](profile& p) { p.layers[2].name = ""; }), "layer 2 has no name");
  EXPECT_EQ(refusal_after([](profile& p) { p.layers[2].name = "conv1"; }), "layer 'conv1' is there twice");
  EXPECT_THAT(refusal_after([](profile& p) { p.layers[0].name = "input"; }), HasSubstr("the model's input"));
  EXPECT_THAT(refusal_after([](profile& p) { p.layers[0].name = "a\nb"; }), HasSubstr("'a\\x0ab'"));
  EXPECT_THAT(refusal_after([](profile& p) { p.layers[0].kind = "\xff"; }), HasSubstr("wanted UTF-8"));
  EXPECT_THAT(refusal_after([](profile& p) { p.layers[0].name = std::string(5000, 'x'); }), HasSubstr("5000 bytes"));
  EXPECT_THAT(refusal_after([](profile& p) { p.layers[0].fused_with_previous = true; }), HasSubstr("'conv1' is fused"));
  EXPECT_EQ(refusal_after([](profile& p) { p.layers[3].weight_bytes = -1; }),
            "layer 'fc': weight_bytes is -1, wanted a number from 0 to 1000000000000000");
  EXPECT_THAT(refusal_after([](profile& p) { p.layers[3].forward_flops = std::nan(""); }), HasSubstr("is nan"));
}

TEST(Profile, InputsAreEarlierLayersSoThereIsNoCycle) {
  EXPECT_THAT(refusal_after([](profile& p) { p.layers[1].inputs = {1}; }), HasSubstr("'relu1' reads layer 1"));
  EXPECT_THAT(refusal_after([](profile& p) { p.layers[1].inputs = {3}; }), HasSubstr("wanted an earlier one"));
  EXPECT_THAT(refusal_after([](profile& p) { p.layers[1].inputs = {-2}; }), HasSubstr("reads layer -2"));
  EXPECT_EQ(refusal_after([](profile& p) {
              p.layers[2].inputs = {0, 0};
            }),
            "layer 'add' reads 'conv1' twice, wanted each producer once");
  EXPECT_EQ(refusal_after([](profile& p) { p.layers[2].inputs = {}; }), "");
}

TEST(Profile, EveryNumberOfAMeasurementIsChecked) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const auto member :
       {&layer_cost::forward_seconds, &layer_cost::backward_seconds, &layer_cost::accumulate_seconds,
        &layer_cost::output_bytes, &layer_cost::kept_bytes, &layer_cost::workspace_bytes})
    for (const double bad : {-1.0, -1e-300, std::nan(""), infinity, -infinity, 1e16})
      EXPECT_THAT(refusal_after([&](profile& p) { p.measurements[1].layers[2].*member = bad; }),
                  HasSubstr("measurement of 16 samples on 1 thread, layer 'add': "))
          << bad;
  EXPECT_THAT(refusal_after([](profile& p) { p.measurements[0].layers[0].forward_seconds = 2e6; }),
              HasSubstr("forward_seconds is 2000000, wanted a number from 0 to 1000000"));
  EXPECT_THAT(refusal_after([](profile& p) { p.measurements[0].update_seconds[3] = -1; }),
              HasSubstr("layer 'fc': update_seconds is -1"));
}

TEST(Profile, MeasurementsFitTheLayers) {
  EXPECT_EQ(refusal_after([](profile& p) { p.measurements.clear(); }), "the profile has no measurements");
  EXPECT_EQ(refusal_after([](profile& p) { p.measurements[2].layers.pop_back(); }),
            "measurement of 4 samples on 4 threads has 3 layers, wanted 4");
  EXPECT_THAT(refusal_after([](profile& p) { p.measurements[0].update_seconds.pop_back(); }),
              HasSubstr("update_seconds of 3 layers, wanted 4 or none"));
  EXPECT_THAT(refusal_after([](profile& p) { p.measurements[2].threads = 1; }),
              HasSubstr("measurement of 4 samples on 1 thread is there twice"));
  for (const auto samples : {std::int64_t{0}, std::int64_t{-4}, std::int64_t{1} << 40})
    EXPECT_THAT(refusal_after([&](profile& p) { p.measurements[0].samples = samples; }), HasSubstr("samples"));
  EXPECT_THAT(refusal_after([](profile& p) { p.measurements[0].threads = 0; }), HasSubstr("threads"));
  EXPECT_THAT(refusal_after([](profile& p) { p.input_bytes_per_sample = -1; }), HasSubstr("input_bytes_per_sample"));
}

/// One layer, forward_seconds as given.
profile one_layer(const std::vector<std::pair<std::int64_t, double>>& points, int threads = 1) {
  profile p;
  p.layers = {{.name = "only", .inputs = {-1}}};
  for (const auto& [samples, seconds] : points)
    p.measurements.push_back({samples, threads, {{.forward_seconds = seconds}}, {}});
  return p;
}

double seconds_at(const profile& p, double samples, int threads = 1) {
  return costs_at(p, samples, threads).at(0).forward_seconds;
}

TEST(Profile, IsScaledButForItsWeightsAndUpdates) {
  auto p = example_profile();
  p.measurements[0].update_seconds.assign(p.layers.size(), 0.25);
  const auto half = scaled(p, 0.5);
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    EXPECT_EQ(half.layers[l].weight_bytes, p.layers[l].weight_bytes);
    const auto &was = p.measurements[0].layers[l], &is = half.measurements[0].layers[l];
    EXPECT_EQ(is.forward_seconds, 0.5 * was.forward_seconds);
    EXPECT_EQ(is.backward_seconds, 0.5 * was.backward_seconds);
    EXPECT_EQ(is.output_bytes, 0.5 * was.output_bytes);
    EXPECT_EQ(is.kept_bytes, 0.5 * was.kept_bytes);
    EXPECT_EQ(half.measurements[0].update_seconds[l], 0.25);
  }
}

TEST(CostsAt, MeasuredSizesComeBackExactly) {
  const auto p = example_profile();
  for (const auto& m : {p.measurements[0], p.measurements[1]}) {
    const auto costs = costs_at(p, static_cast<double>(m.samples), 1);
    ASSERT_EQ(costs.size(), p.layers.size());
    for (std::size_t i = 0; i < costs.size(); ++i) {
      EXPECT_EQ(costs[i].forward_seconds, m.layers[i].forward_seconds);
      EXPECT_EQ(costs[i].backward_seconds, m.layers[i].backward_seconds);
      EXPECT_EQ(costs[i].accumulate_seconds, m.layers[i].accumulate_seconds);
      EXPECT_EQ(costs[i].output_bytes, m.layers[i].output_bytes);
      EXPECT_EQ(costs[i].kept_bytes, m.layers[i].kept_bytes);
      EXPECT_EQ(costs[i].workspace_bytes, m.layers[i].workspace_bytes);
    }
  }
}

TEST(CostsAt, BetweenAndBeyondTheSizesIsTheNearestLine) {
  const auto p = one_layer({{32, 4.2}, {8, 1.0}, {16, 1.8}}); // order does not matter
  EXPECT_DOUBLE_EQ(seconds_at(p, 12), 1.4);
  EXPECT_DOUBLE_EQ(seconds_at(p, 24), 3.0);
  EXPECT_DOUBLE_EQ(seconds_at(p, 8.5), 1.05);
  EXPECT_DOUBLE_EQ(seconds_at(p, 4), 0.6); // 0.2 whatever the size, and 0.1 a sample
  EXPECT_DOUBLE_EQ(seconds_at(p, 64), 8.4);
}

TEST(CostsAt, NoSamplesCostNothing) {
  EXPECT_EQ(seconds_at(one_layer({{8, 1}, {16, 1.5}}), 0), 0);
}

TEST(CostsAt, OneSizeIsProportional) {
  const auto p = one_layer({{8, 2}});
  EXPECT_DOUBLE_EQ(seconds_at(p, 4), 1);
  EXPECT_DOUBLE_EQ(seconds_at(p, 0.5), 0.125);
  EXPECT_DOUBLE_EQ(seconds_at(p, 16), 4);
}

TEST(CostsAt, NoiseNeverMakesACostNegativeOrASmallSizeDearer) {
  const auto falling = one_layer({{8, 2}, {9, 1}}); // the line would be 10 at 0 samples and below 0 from 10 on
  EXPECT_DOUBLE_EQ(seconds_at(falling, 1), 2);
  EXPECT_DOUBLE_EQ(seconds_at(falling, 100), 1);
  const auto steep = one_layer({{8, 1}, {9, 3}}); // the line would be -15 at 0 samples and 185 at 100
  EXPECT_DOUBLE_EQ(seconds_at(steep, 4), 0.5);
  EXPECT_DOUBLE_EQ(seconds_at(steep, 90), 30);
}

TEST(CostsAt, NeverFallsWhereTheMeasuredCostsDoNot) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> step(0, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<std::int64_t, double>> points{{1 + round % 7, step(random)}};
    while (points.size() < 5)
      points.emplace_back(points.back().first + 1 + round % 11, points.back().second + step(random));
    const auto p = one_layer(points);
    double last = 0;
    for (double samples = 0.25; samples < 80; samples += 0.25) {
      const auto now = seconds_at(p, samples);
      ASSERT_GE(now, last * (1 - 1e-12)) << "round " << round << ", " << samples << " samples";
      last = now;
    }
  }
}

TEST(CostsAt, ThreadsAreThoseMeasuredNearestBelow) {
  auto p = one_layer({{8, 4}}, 2);
  p.measurements.push_back({8, 1, {{.forward_seconds = 7}}, {}});
  p.measurements.push_back({8, 8, {{.forward_seconds = 1}}, {}});
  EXPECT_EQ(seconds_at(p, 8, 1), 7);
  EXPECT_EQ(seconds_at(p, 8, 2), 4);
  EXPECT_EQ(seconds_at(p, 8, 7), 4);
  EXPECT_EQ(seconds_at(p, 8, 100), 1);
  EXPECT_EQ(seconds_at(p, 8, 0), 4); // not said: as the first
  EXPECT_EQ(seconds_at(one_layer({{8, 4}}, 2), 8, 1), 4);
}

TEST(CostsAt, SizesThatAreNoneAreRefused) {
  const auto p = one_layer({{8, 1}});
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(refusal([&] { costs_at(p, bad, 1); }), HasSubstr("a micro-batch has"));
  EXPECT_THAT(refusal([] { costs_at(profile{}, 1, 1); }), HasSubstr("no measurements"));
}

TEST(UpdateSecondsAt, IsTheMedianOverSizesAtThatThreadCount) {
  auto p = example_profile();
  EXPECT_THAT(update_seconds_at(p, 1), testing::Pointwise(testing::DoubleEq(), {2e-5, 0.0, 0.0, 2e-4}));
  p.measurements.push_back({32, 1, p.measurements[0].layers, {9e-5, 0, 0, 1.5e-4}});
  EXPECT_THAT(update_seconds_at(p, 1), testing::ElementsAre(3e-5, 0, 0, 1.5e-4));
  EXPECT_THAT(update_seconds_at(p, 4), testing::ElementsAre(0, 0, 0, 0)); // not measured
}

} // namespace
} // namespace penstock::planner
