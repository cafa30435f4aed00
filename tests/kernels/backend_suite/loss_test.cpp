// Losses on a device's library compute what the plain loops do, on odd shapes too.
#include "kernels/ops/loss_ops.hpp"
#include "tests/kernels/cpu/two_backends.hpp"
#include "tests/kernels/scalars.hpp"

namespace penstock {
namespace {

TEST_F(TwoBackends, SoftmaxCrossEntropyAgreesWithThePlainLoops) {
  tensor logits = random({9, 13}, -20.0F, 20.0F);
  logits.data<float>()[5] = logits.data<float>()[3]; // a tie
  tensor labels = tensor::allocate(machine->memory(), dtype::i64, {9}, memory_use::scratch);
  for (std::int64_t i = 0; i < 9; ++i)
    labels.data<std::int64_t>()[i] = (i * 5) % 13;
  for (const float smoothing : {0.0F, 0.1F}) {
    loss_result found, wanted;
    fast->run([&](backend& ops) { found = ops.get<loss_ops>().softmax_cross_entropy(logits, labels, smoothing); });
    plain->run([&](backend& ops) { wanted = ops.get<loss_ops>().softmax_cross_entropy(logits, labels, smoothing); });
    const auto here = metrics_of(found.sums, found.probabilities),
               there = metrics_of(wanted.sums, wanted.probabilities);
    EXPECT_NEAR(here.loss_sum, there.loss_sum, 1e-9 * there.loss_sum);
    EXPECT_EQ(here.correct_top1, there.correct_top1);
    EXPECT_EQ(here.correct_top5, there.correct_top5);
    expect_agreement([&](backend& ops) {
      const tensor wanted_labels = plainly(ops, labels);
      const auto loss = ops.get<loss_ops>().softmax_cross_entropy(plainly(ops, logits), wanted_labels, smoothing);
      return std::vector<tensor>{loss.probabilities, ops.get<loss_ops>().softmax_cross_entropy_backward(
                                                         loss.probabilities, wanted_labels, smoothing, 0.125F)};
    });
  }
  labels.data<std::int64_t>()[4] = 13;
  labels.data<std::int64_t>()[7] = -1; // the first is told
  for (auto* on : {fast.get(), plain.get()})
    on->run([&](backend& ops) {
      const auto loss = ops.get<loss_ops>().softmax_cross_entropy(logits, labels, 0);
      EXPECT_THAT([&] { metrics_of(loss.sums, loss.probabilities); },
                  ::testing::ThrowsMessage<error>("label 13 of sample 4 is outside 0..12"));
    });
}

} // namespace
} // namespace penstock
