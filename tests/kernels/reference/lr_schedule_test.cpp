// Learning-rate schedules at their corner points, and how they are written.
#include "kernels/check.hpp"
#include "kernels/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock {

namespace {

lr_schedule_options schedule(std::string_view text, std::int64_t total_steps = 0, float base = 1) {
  lr_schedule_options options = parse_lr_schedule(text);
  options.total_steps = total_steps;
  options.base = base;
  return options;
}

TEST(LrSchedule, StaysConstant) {
  const auto options = schedule("constant", 10, 0.3F);
  for (const std::int64_t minibatch : {0, 9, 1000})
    EXPECT_FLOAT_EQ(learning_rate(options, minibatch), 0.3F);
}

TEST(LrSchedule, WarmsUpLinearlyToTheBase) {
  const auto options = schedule("constant,warmup=4", 0, 2);
  EXPECT_FLOAT_EQ(learning_rate(options, 0), 0.5F);
  EXPECT_FLOAT_EQ(learning_rate(options, 1), 1.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 3), 2.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 4), 2.0F);
}

TEST(LrSchedule, DropsAtEveryStep) {
  const auto options = schedule("step:every=10,gamma=0.5");
  EXPECT_FLOAT_EQ(learning_rate(options, 9), 1.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 10), 0.5F);
  EXPECT_FLOAT_EQ(learning_rate(options, 19), 0.5F);
  EXPECT_FLOAT_EQ(learning_rate(options, 30), 0.125F);
}

TEST(LrSchedule, CountsDropsFromTheStartOfTheRunAlsoAfterAWarmup) {
  const auto options = schedule("step:every=10,gamma=0.5,warmup=5");
  EXPECT_FLOAT_EQ(learning_rate(options, 4), 1.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 9), 1.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 10), 0.5F);
}

TEST(LrSchedule, FallsAsACosineFromWarmupToTheEnd) {
  const auto options = schedule("cosine:warmup=10,final=0.1", 110);
  EXPECT_FLOAT_EQ(learning_rate(options, 10), 1.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 60), 0.55F);
  EXPECT_NEAR(learning_rate(options, 35), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-6);
  EXPECT_FLOAT_EQ(learning_rate(options, 110), 0.1F);
  EXPECT_FLOAT_EQ(learning_rate(options, 5000), 0.1F);
}

TEST(LrSchedule, FallsAsAPowerOfWhatIsLeft) {
  EXPECT_FLOAT_EQ(learning_rate(schedule("polynomial", 100), 50), 0.25F);
  EXPECT_FLOAT_EQ(learning_rate(schedule("polynomial:power=1", 100), 25), 0.75F);
  EXPECT_FLOAT_EQ(learning_rate(schedule("polynomial:power=1,final=0.5", 100), 100), 0.5F);
  EXPECT_FLOAT_EQ(learning_rate(schedule("polynomial", 100), 0), 1.0F);
  EXPECT_FLOAT_EQ(learning_rate(schedule("polynomial", 100), 100), 0.0F);
}

// get_linear_schedule_with_warmup of transformers is the same from the end of the warm-up on; within it this one is a
// minibatch ahead, so that no minibatch is trained at rate 0.
TEST(LrSchedule, LinearWithWarmupIsTransformersOneMinibatchAheadInTheWarmup) {
  const std::int64_t warmup = 10, total = 100;
  const auto options = schedule("polynomial:power=1,warmup=10", total);
  const auto theirs = [&](std::int64_t step) {
    return step < warmup ? static_cast<double>(step) / static_cast<double>(warmup)
                         : static_cast<double>(total - step) / static_cast<double>(total - warmup);
  };
  for (std::int64_t step = 0; step < total; ++step)
    EXPECT_NEAR(learning_rate(options, step), theirs(step < warmup ? step + 1 : step), 1e-6) << step;
}

// WarmupMultiStepLR of MLPerf's GNMT: 0.01^(1 - t / 200), then level, then four halvings from two thirds of the run.
TEST(LrSchedule, GnmtWarmsUpExponentiallyAndHalvesInTheLastThird) {
  const auto options = schedule("gnmt", 3000, 2);
  EXPECT_FLOAT_EQ(learning_rate(options, 0), 0.02F);
  EXPECT_FLOAT_EQ(learning_rate(options, 100), 0.2F);
  EXPECT_FLOAT_EQ(learning_rate(options, 200), 2.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 1997), 2.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 1998), 1.0F); // int(0.666 * 3000), then every (3000 - 1998) / 4 = 250
  EXPECT_FLOAT_EQ(learning_rate(options, 2247), 1.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 2248), 0.5F);
  EXPECT_FLOAT_EQ(learning_rate(options, 2748), 0.125F);
  EXPECT_FLOAT_EQ(learning_rate(options, 5000), 0.125F);
  const auto other = schedule("gnmt:warmup=0,halvings=2,until=0.5", 100);
  EXPECT_FLOAT_EQ(learning_rate(other, 0), 1.0F);
  EXPECT_FLOAT_EQ(learning_rate(other, 50), 0.5F);
  EXPECT_FLOAT_EQ(learning_rate(other, 75), 0.25F);
}

TEST(LrSchedule, MayBeAllWarmup) {
  const auto options = schedule("cosine,warmup=10", 5);
  EXPECT_FLOAT_EQ(learning_rate(options, 4), 0.5F);
  EXPECT_FLOAT_EQ(learning_rate(options, 10), 1.0F);
  EXPECT_FLOAT_EQ(learning_rate(options, 11), 0.0F);
}

TEST(LrScheduleText, IsReadInEveryForm) {
  EXPECT_EQ(parse_lr_schedule("constant").name, "constant");
  const auto step = parse_lr_schedule("step:every=1000,gamma=0.2,warmup=500");
  EXPECT_EQ(step.name, "step");
  EXPECT_EQ(step.step_every, 1000);
  EXPECT_FLOAT_EQ(step.gamma, 0.2F);
  EXPECT_EQ(step.warmup_steps, 500);
  const auto polynomial = parse_lr_schedule("polynomial:power=3,final=0.01");
  EXPECT_FLOAT_EQ(polynomial.power, 3);
  EXPECT_FLOAT_EQ(polynomial.final_fraction, 0.01F);
  EXPECT_EQ(parse_lr_schedule("cosine,warmup=7").warmup_steps, 7);
  EXPECT_EQ(parse_lr_schedule("cosine:warmup=7").warmup_steps, 7);
}

std::string refusal_of(std::string_view text) {
  try {
    parse_lr_schedule(text);
  } catch (const usage_error& refusal) {
    return refusal.what();
  }
  return "";
}

TEST(LrScheduleText, IsRefusedNamingThePartThatIsWrong) {
  EXPECT_EQ(refusal_of("cosin"), "unknown learning-rate schedule 'cosin' (did you mean 'cosine'?); there are constant, "
                                 "step, cosine, polynomial, gnmt");
  EXPECT_EQ(refusal_of(""), "unknown learning-rate schedule ''; there are constant, step, cosine, polynomial, gnmt");
  EXPECT_EQ(refusal_of("cosine:warmpu=3"),
            "learning-rate schedule 'cosine' has no setting 'warmpu' (did you mean 'warmup'?); it has warmup, final");
  EXPECT_EQ(refusal_of("constant:gamma=2"), "learning-rate schedule 'constant' has no setting 'gamma'; it has warmup");
  EXPECT_EQ(refusal_of("cosine:"), "learning-rate schedule 'cosine' has no setting ''; it has warmup, final");
  EXPECT_EQ(refusal_of("cosine:warmup=1,"), "learning-rate schedule 'cosine' has no setting ''; it has warmup, final");
  EXPECT_EQ(refusal_of("cosine:warmup"), "learning-rate schedule: warmup is '', 'warmup=VALUE' is wanted");
  EXPECT_EQ(refusal_of("cosine:warmup=-1"),
            "learning-rate schedule: warmup is '-1', a whole number of at least 0 is wanted");
  EXPECT_EQ(refusal_of("cosine:warmup=1.5"),
            "learning-rate schedule: warmup is '1.5', a whole number of at least 0 is wanted");
  EXPECT_EQ(refusal_of("step:every=0"), "learning-rate schedule: every is '0', a whole number of at least 1 is wanted");
  EXPECT_EQ(refusal_of("step:gamma=x,every=3"),
            "learning-rate schedule: gamma is 'x', a number of at least 0 is wanted");
  EXPECT_EQ(refusal_of("polynomial:power=-2"),
            "learning-rate schedule: power is '-2', a number of at least 0 is wanted");
  EXPECT_EQ(refusal_of("polynomial:power=nan"),
            "learning-rate schedule: power is 'nan', a number of at least 0 is wanted");
  EXPECT_EQ(refusal_of("gnmt:until=1.5"),
            "learning-rate schedule: until is '1.5', a part of the run, 0 to 1, is wanted");
  EXPECT_EQ(refusal_of("step"), "learning-rate schedule 'step' needs every=MINIBATCHES, as in 'step:every=1000'");
}

TEST(LrSchedule, RefusesAnEndThatIsNotKnown) {
  EXPECT_THROW(learning_rate(schedule("cosine"), 3), usage_error);
  EXPECT_THROW(learning_rate(schedule("polynomial"), 3), usage_error);
  EXPECT_THROW(learning_rate(schedule("gnmt"), 3), usage_error);
}

} // namespace

} // namespace penstock
