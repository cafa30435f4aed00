// The cross-entropy that leaves a label out: PyTorch's formula in float64 on every backend, what it counts, what it
// tells of bad labels.
#include "kernels/ops/loss_ops.hpp"
#include "tests/kernels/backend_suite/closeness.hpp"

#include <gtest/gtest.h>

#include <random>

namespace penstock::testing {
namespace {

struct loss_case {
  shape rows;
  std::int64_t classes;
  masked_loss_args args{};
};

struct loss_values {
  std::vector<double> sums;
  host_tensor gradient;
};

struct loss_call {
  loss_case c;
  host_tensor logits, labels;
  float scale = 0.125F;

  explicit loss_call(const loss_case& like, unsigned seed = 1) : c(like) {
    shape dims = c.rows;
    dims.push_back(c.classes);
    logits = random_tensor(dims, seed);
    for (float& z : logits.values)
      z *= 4;
    labels = random_ids(c.rows, c.classes, seed + 1);
    for (std::size_t i = 0; i < labels.values.size(); i += 3)
      labels.values[i] = static_cast<float>(c.args.ignored);
  }

  // torch.nn.functional.cross_entropy(logits, labels, ignore_index, label_smoothing, reduction="sum") * scale.
  loss_values by_the_definition() const {
    loss_values wanted{std::vector<double>(masked_loss_sums::count), {logits.dims, {}}};
    const auto classes = static_cast<std::size_t>(c.classes);
    const double smooth = c.args.label_smoothing;
    for (std::size_t n = 0; n < labels.values.size(); ++n) {
      const float* z = logits.values.data() + n * classes;
      const bool ignored = labels.values[n] == static_cast<float>(c.args.ignored);
      double sum = 0, mean = 0;
      for (std::size_t k = 0; k < classes; ++k) {
        sum += std::exp(static_cast<double>(z[k]));
        mean += static_cast<double>(z[k]) / static_cast<double>(classes);
      }
      const auto label = ignored ? 0 : static_cast<std::size_t>(labels.values[n]);
      for (std::size_t k = 0; k < classes; ++k) {
        const double target = smooth / static_cast<double>(classes) + (k == label ? 1 - smooth : 0);
        const double slope = std::exp(static_cast<double>(z[k])) / sum - target;
        wanted.gradient.values.push_back(ignored ? 0 : static_cast<float>(slope * static_cast<double>(scale)));
      }
      if (ignored) continue;
      wanted.sums[masked_loss_sums::loss] +=
          (1 - smooth) * (std::log(sum) - static_cast<double>(z[label])) + smooth * (std::log(sum) - mean);
      wanted.sums[masked_loss_sums::counted] += 1;
      wanted.sums[masked_loss_sums::correct] += std::max_element(z, z + classes) == z + label ? 1 : 0;
    }
    wanted.sums[masked_loss_sums::bad_place] = -1;
    return wanted;
  }

  loss_values run(const backend_under_test& on, bool in_place = true) const {
    loss_values found;
    memory_pool host;
    tensor sums, gradient, held;
    open_stream(on)->run([&](backend& ops) {
      tensor z = to_device(ops, logits), y = to_device(ops, labels);
      const tensor other = in_place ? tensor{} : z;
      const auto loss = ops.get<loss_ops>().masked_cross_entropy(c.args, z, y);
      sums = ops.to_host(loss.sums, host);
      gradient = ops.to_host(
          ops.get<loss_ops>().masked_cross_entropy_backward(c.args, std::move(z), y, loss.log_sums, scale), host);
      if (other) held = ops.to_host(other, host);
    });
    if (held) {
      EXPECT_TRUE(std::equal(logits.values.begin(), logits.values.end(), held.data<float>()));
    }
    found.sums.assign(sums.data<double>(), sums.data<double>() + sums.elements());
    found.gradient = {gradient.dims(), {gradient.data<float>(), gradient.data<float>() + gradient.elements()}};
    return found;
  }
};

std::vector<loss_case> cases() {
  return {{{3, 5}, 7},
          {{9}, 13, {.ignored = 0, .label_smoothing = 0.1F}}, // GNMT's
          {{2, 3, 2}, 1},
          {{4, 7}, 300, {.label_smoothing = 0.3F}},
          {{67}, 1031, {.ignored = 5, .label_smoothing = 0.1F}}};
}

TEST(MaskedCrossEntropy, IsPyTorchsFormulaInFloat64OnEveryBackend) {
  for (const auto& c : cases()) {
    const loss_call call(c);
    const auto wanted = call.by_the_definition();
    for (const auto& backend : layer_backends_under_test()) {
      SCOPED_TRACE(backend.name + " " + std::to_string(c.classes));
      const auto found = call.run(backend);
      EXPECT_NEAR(found.sums[masked_loss_sums::loss], wanted.sums[masked_loss_sums::loss],
                  1e-6 * (1 + wanted.sums[masked_loss_sums::loss]));
      for (const auto place : {masked_loss_sums::counted, masked_loss_sums::correct, masked_loss_sums::bad_place})
        EXPECT_EQ(found.sums[place], wanted.sums[place]) << static_cast<int>(place);
      if (c.classes > 1) // else it is a difference of equal numbers
        expect_close(found.gradient, wanted.gradient, 1e-5, "gradient");
    }
  }
}

TEST(MaskedCrossEntropy, HasTheSameBitsForAnyThreadsAndWhoeverHoldsTheLogits) {
  const auto backends = backends_under_test();
  const loss_call call(cases().back());
  const auto one = call.run(backends[1]), two = call.run(backends[2]), held = call.run(backends[2], false);
  EXPECT_EQ(two.sums, one.sums);
  expect_same({two.gradient}, {one.gradient}, "gradient");
  expect_same({held.gradient}, {one.gradient}, "gradient beside the logits");
}

TEST(MaskedCrossEntropy, TellsTheFirstLabelThatIsNoClassAndLeavesItOut) {
  loss_call call({{3, 5}, 7});
  call.labels.values[7] = 7;
  call.labels.values[8] = -1;
  for (const auto& backend : layer_backends_under_test()) {
    const auto found = call.run(backend);
    EXPECT_EQ(found.sums[masked_loss_sums::bad_place], 7);
    EXPECT_EQ(found.sums[masked_loss_sums::bad_label], 7);
    EXPECT_EQ(found.sums[masked_loss_sums::counted], 8);
    for (std::size_t k = 0; k < 14; ++k)
      EXPECT_EQ(found.gradient.values[49 + k], 0) << backend.name;
  }
}

TEST(MaskedCrossEntropy, CallsNoGuessRightThatIsATieOrNotANumber) {
  loss_call call({{4}, 20});
  for (auto& label : call.labels.values)
    label = 3;
  std::fill(call.logits.values.begin(), call.logits.values.end(), 1.0F);
  call.logits.values[23] = 2;                                                  // right
  call.logits.values[43] = std::numeric_limits<float>::quiet_NaN();            // the label's own
  call.logits.values[63] = 2, call.logits.values[70] = call.logits.values[43]; // another's
  for (const auto& backend : layer_backends_under_test()) {
    const auto found = call.run(backend);
    EXPECT_EQ(found.sums[masked_loss_sums::correct], 1) << backend.name;
    EXPECT_TRUE(std::isnan(found.sums[masked_loss_sums::loss])) << backend.name;
  }
}

TEST(MaskedCrossEntropy, OfNothingThatCountsIsZero) {
  loss_call call({{4}, 5});
  for (auto& label : call.labels.values)
    label = -100;
  for (const auto& backend : layer_backends_under_test()) {
    const auto found = call.run(backend);
    EXPECT_EQ(found.sums, (std::vector<double>{0, 0, 0, -1, 0})) << backend.name;
    EXPECT_EQ(found.gradient.values, std::vector<float>(20)) << backend.name;
  }
}

} // namespace
} // namespace penstock::testing
