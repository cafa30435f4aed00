// Optimizers against PyTorch's formulas written out, their state, and what they refuse.
#include "kernels/check.hpp"
#include "kernels/optimizer.hpp"
#include "tests/kernels/backend_suite/closeness.hpp"
#include "tests/kernels/scalars.hpp"

#include <gmock/gmock.h>

#include <functional>

namespace penstock::testing {

namespace {

constexpr float rate = 0.1F;
constexpr float gradient_scale = 0.25F;
constexpr int steps = 7;

host_tensor gradient_of_step(int step) {
  return random_tensor({3, 4}, 40 + static_cast<unsigned>(step));
}

// The weights after `steps` updates by the optimizer; every version apart.
host_tensor train(const optimizer_options& options, bool decay) {
  host_tensor result;
  reference_stream()->run([&](backend& ops) {
    const auto optimizer = make_optimizer(options);
    optimizer_state state;
    tensor weight = to_device(ops, random_tensor({3, 4}, 39));
    for (int step = 0; step < steps; ++step) {
      const host_tensor before = to_host(ops, weight);
      tensor next = ops.allocate(dtype::f32, weight.dims(), memory_use::weights);
      optimizer->step(ops, rate, gradient_scale, decay, weight, to_device(ops, gradient_of_step(step)), state, next,
                      one_flag(ops), 0);
      EXPECT_EQ(to_host(ops, weight).values, before.values) << "the version read was written";
      weight = next;
    }
    result = to_host(ops, weight);
  });
  return result;
}

// Applies `update(weight, scaled gradient, element, step from 1)` in double.
template <class Update>
host_tensor expected_of(Update update) {
  host_tensor weight = random_tensor({3, 4}, 39);
  for (std::size_t i = 0; i < weight.values.size(); ++i) {
    double w = weight.values[i];
    for (int step = 0; step < steps; ++step)
      w = update(w, static_cast<double>(gradient_of_step(step).values[i]) * gradient_scale, i, step + 1);
    weight.values[i] = static_cast<float>(w);
  }
  return weight;
}

TEST(Sgd, FollowsTheGradient) {
  const auto expected = expected_of([](double w, double g, std::size_t, int) { return w - rate * g; });
  expect_close(train({.name = "sgd", .momentum = 0}, true), expected, 1e-6, "weight");
}

TEST(Sgd, DecaysWeightsThroughTheGradientWhereDecayIsOn) {
  const auto expected = expected_of([](double w, double g, std::size_t, int) { return w - rate * (g + 0.05 * w); });
  const optimizer_options options{.name = "sgd", .momentum = 0, .weight_decay = 0.05F};
  expect_close(train(options, true), expected, 1e-6, "weight");
  expect_same({train(options, false)}, {train({.name = "sgd", .momentum = 0}, true)}, "without decay");
}

TEST(Sgd, KeepsMomentumWithoutDampening) {
  std::vector<double> velocity(12);
  const auto expected = expected_of([&](double w, double g, std::size_t i, int) {
    velocity[i] = 0.9 * velocity[i] + g + 0.05 * w;
    return w - rate * velocity[i];
  });
  expect_close(train({.name = "sgd", .momentum = 0.9F, .weight_decay = 0.05F}, true), expected, 1e-6, "weight");
}

TEST(Sgd, LooksAheadWithNesterov) {
  std::vector<double> velocity(12);
  const auto expected = expected_of([&](double w, double g, std::size_t i, int) {
    g += 0.05 * w;
    velocity[i] = 0.9 * velocity[i] + g;
    return w - rate * (g + 0.9 * velocity[i]);
  });
  expect_close(train({.name = "sgd", .momentum = 0.9F, .nesterov = true, .weight_decay = 0.05F}, true), expected, 1e-6,
               "weight");
}

TEST(AdamW, DecaysApartFromItsCorrectedMoments) {
  std::vector<double> m(12), v(12);
  const auto formula = [&](double decay) {
    m.assign(12, 0);
    v.assign(12, 0);
    return expected_of([&, decay](double w, double g, std::size_t i, int step) {
      w *= 1 - rate * decay;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      return w - rate / (1 - std::pow(0.9, step)) * m[i] / (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8);
    });
  };
  const optimizer_options options{.name = "adamw", .weight_decay = 0.25F};
  expect_close(train(options, true), formula(0.25), 1e-5, "weight");
  expect_close(train(options, false), formula(0), 1e-5, "weight without decay");
}

TEST(Adam, DecaysThroughTheGradientAndCorrectsItsMomentsUnlessToldNotTo) {
  std::vector<double> m(12), v(12);
  const double beta1 = 0.9F, beta2 = 0.999F;
  for (const bool corrects : {true, false}) {
    m.assign(12, 0);
    v.assign(12, 0);
    const auto expected = expected_of([&](double w, double g, std::size_t i, int step) {
      g += 0.25 * w;
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double first = corrects ? 1 - std::pow(beta1, step) : 1, second = corrects ? 1 - std::pow(beta2, step) : 1;
      return w - rate / first * m[i] / (std::sqrt(v[i] / second) + 1e-8);
    });
    const optimizer_options options{.name = "adam", .weight_decay = 0.25F, .bias_correction = corrects};
    expect_close(train(options, true), expected, 1e-5, "weight");
  }
}

TEST(Asgd, StepsAsSgdWithoutMomentumAndAveragesWhatItIsToldToCount) {
  expect_same({train({.name = "asgd", .weight_decay = 0.05F}, true)},
              {train({.name = "sgd", .momentum = 0, .weight_decay = 0.05F}, true)}, "weight");
  reference_stream()->run([](backend& ops) {
    const auto optimizer = make_optimizer({.name = "asgd"});
    optimizer_state state;
    tensor weight = to_device(ops, {{1}, {8}});
    std::vector<float> in_use;
    for (int step = 0; step < 5; ++step) {
      optimizer->step(ops, 1, 1, true, weight, to_device(ops, {{1}, {1}}), state, weight, one_flag(ops), 0);
      if (step > 0) optimizer->average(ops, weight, state);
      in_use.push_back(to_host(ops, optimizer->in_use(weight, state)).values[0]);
    }
    EXPECT_EQ(in_use, (std::vector<float>{7, 6, 5, 4.5F, 4})); // of 7, 6, 5, 4, 3: 6 is left out when 5 comes
    EXPECT_EQ(state.step, 4);
  });
}

TEST(OptimizerState, IsNamedForCheckpointsAndZeroedInTheWeightsFormat) {
  EXPECT_TRUE(make_optimizer({.name = "sgd", .momentum = 0})->state_names().empty());
  EXPECT_THAT(make_optimizer({.name = "sgd"})->state_names(), ::testing::ElementsAre("momentum"));
  EXPECT_THAT(make_optimizer({.name = "adamw"})->state_names(), ::testing::ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(make_optimizer({.name = "asgd"})->state_names(), ::testing::ElementsAre("average"));
}

TEST(OptimizerState, MayBeGivenOrGrowsAtTheFirstStep) {
  reference_stream()->run([](backend& ops) {
    const auto optimizer = make_optimizer({.name = "sgd", .momentum = 0.5F});
    tensor weight = to_device(ops, {{2}, {0, 0}});
    const tensor gradient = to_device(ops, {{2}, {1, 2}});
    optimizer_state state;
    optimizer->step(ops, 1, 1, true, weight, gradient, state, weight, one_flag(ops), 0);
    ASSERT_EQ(state.tensors.size(), 1U);
    EXPECT_EQ(state.step, 1);
    EXPECT_EQ(to_host(ops, state.tensors[0]).values, (std::vector<float>{1, 2}));
    optimizer_state given{.tensors = {to_device(ops, {{2}, {10, 10}})}, .step = 4};
    optimizer->step(ops, 1, 1, true, weight, gradient, given, weight, one_flag(ops), 0);
    EXPECT_EQ(to_host(ops, given.tensors[0]).values, (std::vector<float>{6, 7}));
    EXPECT_EQ(given.step, 5);
  });
}

std::string refusal_of(const optimizer_options& options) {
  try {
    make_optimizer(options);
  } catch (const usage_error& refusal) {
    return refusal.what();
  }
  return "";
}

TEST(OptimizerRefusals, NameTheValueAndSuggestTheNearestName) {
  EXPECT_EQ(refusal_of({.name = "adamx"}),
            "unknown optimizer 'adamx' (did you mean 'adam'?); there are sgd, adam, adamw, asgd");
  EXPECT_EQ(refusal_of({.name = "lamb_optimizer"}),
            "unknown optimizer 'lamb_optimizer'; there are sgd, adam, adamw, asgd");
  EXPECT_EQ(refusal_of({.momentum = 1}), "optimizer: momentum is 1, at least 0 and less than 1 is wanted");
  EXPECT_EQ(refusal_of({.momentum = std::nanf("")}),
            "optimizer: momentum is nan, at least 0 and less than 1 is wanted");
  EXPECT_EQ(refusal_of({.momentum = 0, .nesterov = true}), "optimizer: nesterov needs a momentum above 0");
  EXPECT_EQ(refusal_of({.weight_decay = -0.5F}), "optimizer: weight decay is -0.5, 0 or more is wanted");
  EXPECT_EQ(refusal_of({.name = "adamw", .beta1 = -1}), "optimizer: beta1 is -1, at least 0 and less than 1 is wanted");
  EXPECT_EQ(refusal_of({.name = "adamw", .beta2 = 1.5F}),
            "optimizer: beta2 is 1.5, at least 0 and less than 1 is wanted");
  EXPECT_EQ(refusal_of({.name = "adamw", .epsilon = 0}), "optimizer: epsilon is 0, more than 0 is wanted");
  EXPECT_EQ(refusal_of({.name = "adamw", .weight_decay = HUGE_VALF}),
            "optimizer: weight decay is inf, 0 or more is wanted");
}

} // namespace

} // namespace penstock::testing
