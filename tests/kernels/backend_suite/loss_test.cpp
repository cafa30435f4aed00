// Losses on a device's library compute what the plain loops do, on odd shapes too.
#include "kernels/ops/loss_ops.hpp"
#include "tests/kernels/cpu/two_backends.hpp"

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
    EXPECT_NEAR(found.loss_sum, wanted.loss_sum, 1e-9 * wanted.loss_sum);
    EXPECT_EQ(found.correct_top1, wanted.correct_top1);
    EXPECT_EQ(found.correct_top5, wanted.correct_top5);
    expect_agreement([&](backend& ops) {
      const auto loss = ops.get<loss_ops>().softmax_cross_entropy(logits, labels, smoothing);
      return std::vector<tensor>{loss.probabilities, ops.get<loss_ops>().softmax_cross_entropy_backward(
                                                         loss.probabilities, labels, smoothing, 0.125F)};
    });
  }
  labels.data<std::int64_t>()[4] = 13;
  EXPECT_THROW(fast->run([&](backend& ops) { ops.get<loss_ops>().softmax_cross_entropy(logits, labels, 0); }), error);
}

} // namespace
} // namespace penstock
