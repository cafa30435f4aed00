// Element-wise operations and moves of elements on a device's library compute what the plain loops do, on odd shapes
// too.
#include "kernels/ops/elementwise_ops.hpp"
#include "tests/kernels/cpu/two_backends.hpp"

namespace penstock {
namespace {

TEST_F(TwoBackends, ElementwiseOperationsAgreeWithThePlainLoops) {
  for (const shape& dims : {shape{2, 20, 5, 3}, shape{3, 4, 2, 2}, shape{7, 33}, shape{8, 64, 28, 28}}) {
    const tensor a = random(dims), b = random(dims);
    expect_agreement([&](backend& ops) {
      tensor filled = ops.allocate_activation(dims), sum = activation(ops, a);
      ops.fill(filled, 2.5F);
      ops.get<elementwise_ops>().accumulate(sum, activation(ops, b));
      const tensor positive = ops.get<elementwise_ops>().relu_forward(activation(ops, a));
      return std::vector<tensor>{filled,
                                 sum,
                                 ops.get<elementwise_ops>().add(activation(ops, a), activation(ops, b), false),
                                 ops.get<elementwise_ops>().add(activation(ops, a), activation(ops, b), true),
                                 positive,
                                 ops.get<elementwise_ops>().relu_backward(positive, activation(ops, b))};
    });
  }
}

TEST_F(TwoBackends, DropoutKeepsTheSameElementsWhateverTheLayout) {
  const random_key key{.seed = 7, .layer = 99, .minibatch = 3, .microbatch = 1};
  for (const shape& dims : {shape{2, 20, 5, 3}, shape{4, 1000}, shape{8, 64, 28, 28}}) {
    const tensor x = random(dims);
    for (const float p : {0.0F, 0.3F, 0.5F, 1.0F})
      expect_agreement(
          [&](backend& ops) {
            return std::vector<tensor>{ops.get<elementwise_ops>().dropout(key, p, activation(ops, x))};
          },
          0);
  }
}

TEST_F(TwoBackends, DropoutDropsTheShareAskedForAndDependsOnEveryPartOfTheKey) {
  const tensor ones = random({1, 100000}, 1.0F, 1.0F);
  const random_key keys[] = {{1, 2, 3, 4}, {2, 2, 3, 4}, {1, 3, 3, 4}, {1, 2, 4, 4}, {1, 2, 3, 5}};
  fast->run([&](backend& ops) {
    std::vector<std::vector<float>> masks;
    for (const auto& key : keys)
      masks.push_back(values_of(ops, ops.get<elementwise_ops>().dropout(key, 0.4F, activation(ops, ones))));
    for (std::size_t i = 0; i < masks.size(); ++i) {
      std::int64_t kept = 0, both = 0;
      for (std::size_t e = 0; e < masks[i].size(); ++e) {
        kept += masks[i][e] != 0.0F;
        both += masks[i][e] != 0.0F && masks[0][e] != 0.0F;
      }
      EXPECT_NEAR(static_cast<double>(kept), 60000, 5 * 155); // five standard deviations
      const double wanted = i == 0 ? 60000 : 36000;           // more or fewer: the masks are related
      EXPECT_NEAR(static_cast<double>(both), wanted, 5 * 155) << "masks " << i << " and 0";
    }
  });
}

TEST_F(TwoBackends, FlattenConcatAndSplitOnlyMoveElements) {
  const tensor x = random({2, 20, 3, 5});
  const std::vector<std::vector<std::int64_t>> lists{{16, 32, 16}, {3, 20, 1}, {2, 1}, {16, 3}};
  expect_agreement(
      [&](backend& ops) {
        const tensor flat = ops.to_plain(activation(ops, x)).reshaped({2, 300});
        EXPECT_TRUE(flat.is_plain());
        return std::vector<tensor>{
            flat, ops.reorder(flat.reshaped(x.dims()), ops.activation_format(x.dims()), memory_use::scratch)};
      },
      0);
  for (const auto& channels : lists) {
    std::vector<tensor> inputs;
    for (const auto c : channels)
      inputs.push_back(random({2, c, 3, 5}));
    expect_agreement(
        [&](backend& ops) {
          std::vector<tensor> parts;
          for (const auto& i : inputs)
            parts.push_back(activation(ops, i));
          const tensor whole = ops.get<elementwise_ops>().concat(parts);
          auto results = ops.get<elementwise_ops>().split(whole, channels);
          for (const auto& r : results)
            EXPECT_TRUE(same_format(r.format(), ops.activation_format(r.dims())));
          results.push_back(whole);
          return results;
        },
        0);
  }
}

} // namespace
} // namespace penstock
