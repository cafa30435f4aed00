// AR and TAR: PyTorch's formulas in float64 on every backend, whatever the micro-batches are.
#include "kernels/check.hpp"
#include "kernels/losses/activation_penalty.hpp"
#include "tests/kernels/backend_suite/closeness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

using ::testing::ThrowsMessage;

struct penalty_result {
  double loss = 0;
  std::vector<float> gradient;
};

// weight * mean over the whole minibatch, as h.pow(2).mean() and (h[1:] - h[:-1]).pow(2).mean().
penalty_result by_the_definition(penalty kind, const host_tensor& h, double weight) {
  const auto steps = static_cast<std::size_t>(h.dims[1]), features = static_cast<std::size_t>(h.dims[2]);
  penalty_result wanted{0, std::vector<float>(h.values.size())};
  std::vector<double> slopes(h.values.size());
  const double terms = static_cast<double>(h.values.size()) / static_cast<double>(steps) *
                       static_cast<double>(kind == penalty::step ? steps - 1 : steps);
  for (std::size_t i = 0; i < h.values.size(); ++i) {
    const bool is_first = i / features % steps == 0;
    if (kind == penalty::step && is_first) continue;
    const double value =
        static_cast<double>(h.values[i]) - (kind == penalty::step ? static_cast<double>(h.values[i - features]) : 0.0);
    wanted.loss += weight * value * value / terms;
    slopes[i] += 2 * weight * value / terms;
    if (kind == penalty::step) slopes[i - features] -= 2 * weight * value / terms;
  }
  std::copy(slopes.begin(), slopes.end(), wanted.gradient.begin());
  return wanted;
}

// As a segment calls it: each micro-batch's sum, the gradient divided by the samples of the whole minibatch.
penalty_result by_the_loss(stream& on, penalty kind, const host_tensor& h, float weight,
                           const std::vector<std::int64_t>& samples) {
  const auto loss = losses::activation_penalty(kind);
  const auto all = static_cast<float>(h.dims[0]);
  penalty_result found;
  std::size_t first = 0;
  for (const auto count : samples) {
    host_tensor part{{count, h.dims[1], h.dims[2]}, {}};
    const auto values = static_cast<std::size_t>(element_count(part.dims));
    const auto begin = h.values.begin() + static_cast<std::ptrdiff_t>(first);
    part.values.assign(begin, begin + static_cast<std::ptrdiff_t>(values));
    first += values;
    on.run([&](backend& ops) {
      auto made = loss->forward(ops, std::vector<tensor>{to_device(ops, part)}, phase::training);
      found.loss += static_cast<double>(weight) * *made.sums.data<double>() / static_cast<double>(all);
      const auto gradients = loss->backward(ops, made.saved, weight / all);
      const auto dh = to_host(ops, gradients.at(0));
      found.gradient.insert(found.gradient.end(), dh.values.begin(), dh.values.end());
    });
  }
  return found;
}

TEST(ActivationPenalty, IsTheMeanOverTheMinibatchHoweverItIsSplit) {
  const auto h = random_tensor({5, 7, 13}, 3);
  for (const auto kind : {penalty::activation, penalty::step}) {
    const auto wanted = by_the_definition(kind, h, 2);
    for (const auto& backend : backends_under_test())
      for (const auto& split : {std::vector<std::int64_t>{5}, {3, 2}, {1, 1, 1, 1, 1}}) {
        SCOPED_TRACE(backend.name + ", micro-batches " + std::to_string(split.size()));
        const auto found = by_the_loss(*open_stream(backend), kind, h, 2, split);
        EXPECT_NEAR(found.loss, wanted.loss, 1e-9 * wanted.loss);
        ASSERT_EQ(found.gradient.size(), wanted.gradient.size());
        for (std::size_t i = 0; i < wanted.gradient.size(); ++i)
          EXPECT_NEAR(found.gradient[i], wanted.gradient[i], 1e-8) << i;
      }
  }
}

TEST(ActivationPenalty, OfOneStepHasNoStepsToPayFor) {
  const auto h = random_tensor({2, 1, 3}, 4);
  const auto found = by_the_loss(*reference_stream(), penalty::step, h, 1, {2});
  EXPECT_EQ(found.loss, 0);
  EXPECT_EQ(found.gradient, std::vector<float>(6, 0));
}

TEST(ActivationPenalty, RefusesWhatIsNoSequence) {
  const auto expect = [](penalty kind, std::vector<tensor_spec> inputs) {
    return [=] { losses::activation_penalty(kind)->expect(inputs); };
  };
  EXPECT_THAT(expect(penalty::activation, {{dtype::f32, {2, 3}}}),
              ThrowsMessage<usage_error>("activation_penalty: the activations are F32 [2, 3]; wanted F32 [N, T, F]"));
  EXPECT_THAT(expect(penalty::step, {}), ThrowsMessage<usage_error>("temporal_activation_penalty reads one value"));
}

} // namespace
} // namespace penstock::testing
