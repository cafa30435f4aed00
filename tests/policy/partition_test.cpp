// Balanced cuts against all cuts, and what is kept together.
#include "actors/policy/partition.hpp"
#include "kernels/check.hpp"
#include "kernels/model_builder.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

namespace penstock::actors {
namespace {

using ::testing::ElementsAre;

// So much work and nothing else that counts.
class work_layer : public layer {
public:
  work_layer(double flops, bool relu) : flops_(flops), relu_(relu) {}
  std::string_view kind() const override { return "work"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> in) const override { return {in[0]}; }
  layer_ptr try_fuse(const layer& next) const override {
    const auto* other = dynamic_cast<const work_layer*>(&next);
    return !relu_ && other != nullptr && other->relu_ ? std::make_shared<work_layer>(flops_, false) : nullptr;
  }
  double forward_flops(std::span<const tensor_spec>) const override { return flops_; }
  forward_result forward(run_context&, std::span<tensor>, std::span<const tensor>) const override { return {}; }
  backward_result backward(run_context&, std::span<tensor>, std::span<const tensor>,
                           std::span<const tensor>) const override {
    return {};
  }

private:
  double flops_;
  bool relu_;
};

// Work below 0 is a ReLU's.
model chain(const std::vector<double>& work, const std::vector<std::vector<std::string>>& together = {}) {
  model_builder b("chain", {1});
  for (const auto& group : together)
    b.keep_together(group);
  auto x = b.input();
  for (std::size_t i = 0; i < work.size(); ++i)
    x = b.add(std::string("l").append(std::to_string(i)), std::make_shared<work_layer>(std::abs(work[i]), work[i] < 0),
              {x});
  return b.build(x);
}

double largest_stage(const std::vector<double>& work, const std::vector<int>& cuts, const std::vector<int>& replicas) {
  double largest = 0;
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    const auto end = s + 1 < cuts.size() ? static_cast<std::size_t>(cuts[s + 1]) : work.size();
    double own = 0;
    for (auto l = static_cast<std::size_t>(cuts[s]); l < end; ++l)
      own += 3 * std::abs(work[l]) + 10;
    largest = std::max(largest, own / replicas[s]);
  }
  return largest;
}

double best_by_trying_all(const std::vector<double>& work, const std::vector<int>& replicas) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> cuts{0};
  const std::function<void()> grow = [&] {
    if (cuts.size() == replicas.size()) {
      best = std::min(best, largest_stage(work, cuts, replicas));
      return;
    }
    for (int c = cuts.back() + 1; c < static_cast<int>(work.size()); ++c) {
      cuts.push_back(c);
      grow();
      cuts.pop_back();
    }
  };
  grow();
  return best;
}

TEST(BalancedCuts, AreAsGoodAsTheBestOfAll) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> work_of(0, 400);
  std::uniform_int_distribution<int> replicas_of(1, 3);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> work(static_cast<std::size_t>(1 + round % 8));
    for (auto& w : work)
      w = (random() % 3 == 0 ? -1 : 1) * work_of(random);
    std::vector<int> replicas(1 + random() % work.size());
    for (auto& r : replicas)
      r = replicas_of(random);
    const auto cuts = balanced_cuts(chain(work), replicas);
    ASSERT_EQ(cuts.size(), replicas.size());
    EXPECT_EQ(cuts.front(), 0);
    EXPECT_TRUE(std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end());
    EXPECT_LT(cuts.back(), static_cast<int>(work.size()));
    EXPECT_DOUBLE_EQ(largest_stage(work, cuts, replicas), best_by_trying_all(work, replicas));
  }
}

TEST(BalancedCuts, GiveEveryStageOneLayerWhereThereAreNoMore) {
  EXPECT_THAT(balanced_cuts(chain({1, 100, 1}), {1, 1, 1}), ElementsAre(0, 1, 2));
  EXPECT_THAT(balanced_cuts(chain({5}), {4}), ElementsAre(0));
}

TEST(BalancedCuts, GiveMoreWorkToMoreReplicas) {
  EXPECT_THAT(balanced_cuts(chain({90, 90, 90, 90}), {3, 1}), ElementsAre(0, 3));
  EXPECT_THAT(balanced_cuts(chain({90, 90, 90, 90}), {1, 3}), ElementsAre(0, 1));
  EXPECT_THAT(balanced_cuts(chain({90, 90, 90, 90}), {1, 1}, 3), ElementsAre(0, 3)) << "three frozen ones are as one";
}

TEST(BalancedCuts, KeepAReluWithItsProducerWhereThatCostsNothing) {
  EXPECT_THAT(balanced_cuts(chain({1000, 100, -50, 100}), {1, 1, 1}), ElementsAre(0, 1, 3)) << "stage 0 decides";
  EXPECT_THAT(balanced_cuts(chain({100, -50, 100, 1000}), {1, 1, 1}), ElementsAre(0, 2, 3));
  EXPECT_THAT(balanced_cuts(chain({400, -300, 1}), {1, 1}), ElementsAre(0, 1)) << "here it would cost";
}

TEST(BalancedCuts, PartWhatShouldStayTogetherOnlyWhereElseItCostsMuch) {
  const std::vector<double> work{300, 500, 500, 500, 200, 200, 500, 500, 500, 200};
  EXPECT_THAT(balanced_cuts(chain(work), {1, 1}), ElementsAre(0, 5));
  EXPECT_THAT(balanced_cuts(chain(work, {{"l4", "l5"}}), {1, 1}), ElementsAre(0, 4)) << "a twentieth more";
  EXPECT_THAT(balanced_cuts(chain(work, {{"l2", "l5", "l7"}}), {1, 1}), ElementsAre(0, 5)) << "too much";
  EXPECT_THAT(balanced_cuts(chain({100, 100}, {{"l0", "l1"}}), {1, 1}), ElementsAre(0, 1)) << "there is no other";
}

TEST(BalancedCuts, LoadTheOtherStagesEvenlyToo) {
  EXPECT_THAT(balanced_cuts(chain({1000, 50, 50, 50, 50}), {1, 1, 1}), ElementsAre(0, 1, 3));
  EXPECT_THAT(balanced_cuts(chain({50, 50, 50, 50, 1000}), {1, 1, 1}), ElementsAre(0, 2, 4));
}

TEST(BalancedCuts, RefuseMoreStagesThanLayers) {
  EXPECT_THAT(
      [] {
        balanced_cuts(chain({1, 1}), {1, 1, 1});
      },
      ::testing::ThrowsMessage<usage_error>(
          "chain has 2 layers; 3 stages were asked for, and each needs at least one"));
}

} // namespace
} // namespace penstock::actors
