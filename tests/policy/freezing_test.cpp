// How deep a model can be frozen, and what is said of it.
#include "actors/policy/freezing.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/losses/cross_entropy.hpp"
#include "kernels/model_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace penstock::actors {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// 0 a, 1 relu, 2 b, 3 c, 4 d, 5 e, 6 flat, with the ties that are named: the second layer has the first one's weight.
model chain(const std::vector<std::pair<std::string, std::string>>& ties = {}) {
  using namespace layers;
  model_builder builder("chain");
  auto x = builder.input("input", dtype::f32, {4});
  const auto labels = builder.input("labels", dtype::i64, {}, {.below = 4});
  for (const std::string name : {"a", "relu", "b", "c", "d", "e", "flat"}) {
    parameter_ties shared;
    for (const auto& [from, to] : ties)
      if (to == name) shared["weight"] = from + ".weight";
    if (name == "relu" || name == "flat")
      x = builder.add(name, relu(), {x});
    else
      x = builder.add(name, linear({.in_features = 4, .out_features = 4, .bias = false}), {x}, shared);
  }
  builder.loss("loss", losses::cross_entropy(), {x, labels});
  return builder.build();
}

TEST(DeepestFreeze, IsAsWantedWhereNothingIsInTheWay) {
  for (int layer = 0; layer <= 5; ++layer) {
    EXPECT_EQ(deepest_freeze(chain(), layer).layer, layer);
    EXPECT_EQ(deepest_freeze(chain(), layer).reason, "");
  }
}

TEST(DeepestFreeze, LeavesTheLastLayerThatHasParameters) {
  for (const int wanted : {6, 7, 99}) {
    const auto found = deepest_freeze(chain(), wanted);
    EXPECT_EQ(found.layer, 5);
    EXPECT_THAT(found.reason, HasSubstr("nothing would be left to train behind e"));
  }
}

TEST(DeepestFreeze, StopsBeforeATensorWithAnActiveUse) {
  const auto net = chain({{"b", "d"}});
  EXPECT_EQ(deepest_freeze(net, 2).layer, 2) << "both uses are active";
  const auto found = deepest_freeze(net, 4);
  EXPECT_EQ(found.layer, 2);
  EXPECT_EQ(found.reason, "b.weight of b is trained by d, too");
  EXPECT_EQ(deepest_freeze(net, 5).layer, 5) << "both are frozen";
}

TEST(DeepestFreeze, OneTieMayLeadToAnother) {
  const auto net = chain({{"a", "c"}, {"b", "d"}});
  EXPECT_EQ(deepest_freeze(net, 4).layer, 0) << "d holds b back, and before b there is a, which c holds back";
  EXPECT_EQ(deepest_freeze(net, 5).layer, 5);
}

TEST(RequireFreeze, SaysWhyAndHowDeepItCouldBe) {
  EXPECT_NO_THROW(require_freeze(chain(), 0));
  EXPECT_NO_THROW(require_freeze(chain(), 5));
  EXPECT_THAT(
      [] {
        require_freeze(chain({{"b", "d"}}), 3);
      },
      ThrowsMessage<usage_error>("what is before c cannot be frozen: b.weight of b is trained by d, too; the "
                                 "deepest possible is until b"));
  EXPECT_THAT(
      [] {
        require_freeze(chain({{"a", "e"}}), 3);
      },
      ThrowsMessage<usage_error>(AllOf(HasSubstr("a.weight"), HasSubstr("no layer can be frozen"))));
  EXPECT_THAT([] { require_freeze(chain(), 6); }, ThrowsMessage<usage_error>(HasSubstr("nothing would be left")));
  EXPECT_THAT([] { require_freeze(chain(), 7); }, ThrowsMessage<usage_error>(HasSubstr("wanted one of its 7 layers")));
  EXPECT_THAT([] { require_freeze(chain(), -1); }, ThrowsMessage<usage_error>(HasSubstr("wanted one of its 7 layers")));
}

TEST(DescribeFreeze, CountsATensorOnce) {
  const auto net = chain({{"a", "b"}});
  EXPECT_EQ(frozen_parameters(net, 3), 16);
  EXPECT_EQ(describe_freeze(net, 3), "frozen until c: 16 of 64 parameters");
  EXPECT_EQ(describe_freeze(net, 0), "");
}

TEST(DescribeFreeze, SaysWhatAChangeMeans) {
  const auto net = chain();
  EXPECT_EQ(describe_freeze_change(net, 2, 2), "");
  EXPECT_THAT(describe_freeze_change(net, 0, 3),
              AllOf(HasSubstr("frozen until c: 32 of 80 parameters"), HasSubstr("of the 32 that are frozen now is "
                                                                                "dropped")));
  EXPECT_THAT(describe_freeze_change(net, 0, 3), Not(HasSubstr("statistics"))) << "it has none";
  EXPECT_THAT(describe_freeze_change(net, 3, 2),
              AllOf(HasSubstr("frozen until b: 16 of 80"), HasSubstr("of the 16 that are trained again begins anew")));
  EXPECT_THAT(describe_freeze_change(net, 3, 0), HasSubstr("nothing is frozen any more"));
}

} // namespace
} // namespace penstock::actors
