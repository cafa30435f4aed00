// The models that come with Penstock, narrow, with their first half frozen: what actors leave is what the oracle
// leaves.
#include "actors/made_up_data.hpp"
#include "actors/policy/freezing.hpp"
#include "apps/models/registry.hpp"
#include "tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

using actors::executor_kind;
using actors::made_up_data;

struct subject {
  const char* name;
  const char* model;
  apps::model_options options;
};

std::vector<subject> subjects() {
  const auto image = [](std::int64_t size, double width) {
    apps::model_options o;
    o.image_size = size;
    o.width = width;
    o.classes = 5;
    return o;
  };
  auto vit = image(32, 0.01);
  vit.dropout = 0.1;
  const auto words = [](std::int64_t vocabulary, std::int64_t length) {
    apps::model_options o;
    o.width = 0.01;
    o.vocabulary = vocabulary;
    o.length = length;
    return o;
  };
  auto bert = words(50, 10), pretraining = bert, gnmt = words(13, 6), awd = words(19, 9);
  bert.own["head"] = "classification";
  pretraining.own["head"] = "pretraining";
  pretraining.own["untied"] = "yes";
  gnmt.dropout = 0.2;
  gnmt.own["layers"] = "3";
  awd.own["untied"] = "yes";
  return {
      {"Resnet18", "resnet18", image(32, 0.0625)}, {"InceptionWithItsAuxiliaryHead", "inception_v3", image(75, 0.02)},
      {"VisionTransformer", "vit_b_16", vit},      {"BertClassification", "bert", bert},
      {"BertPretraining", "bert", pretraining},    {"Gnmt", "gnmt_large", gnmt},
      {"AwdLanguageModel", "awd_lm", awd}};
}

class FrozenModels : public ::testing::TestWithParam<subject> {};

// The freeze ends inside the first stage, at its end, and inside the second one.
TEST_P(FrozenModels, LeaveTheOraclesBits) {
  const auto net = std::make_shared<const model>(apps::find_model(GetParam().model).build(GetParam().options));
  const made_up_data samples(*net, 12), test(*net, 4, 2);
  const int layers = static_cast<int>(net->layers().size());
  const int depth = actors::deepest_freeze(*net, layers / 2).layer;
  ASSERT_GT(depth, layers / 3);
  const int behind = (depth + layers) / 2;
  struct setting {
    const char* schedule;
    std::vector<int> replicas, cuts;
  };
  for (const auto& [schedule, replicas, cuts] :
       {setting{"1f1b", {1, 1}, {behind}}, setting{"pipedream", {2, 1}, {behind}}, setting{"2bw", {1, 1}, {depth}},
        setting{"pipedream", {1, 1, 1}, {depth / 2, behind}}}) {
    SCOPED_TRACE(std::string(schedule) + " cut at " + ::testing::PrintToString(cuts) + ", frozen until " +
                 net->layers()[static_cast<std::size_t>(depth)].name);
    auto o = tiny_options();
    o.schedule = schedule;
    o.replicas = replicas;
    o.cuts = cuts;
    o.frozen_until = depth;
    o.batch = 4;
    o.microbatches = o.schedule == "pipedream" ? 0 : 2;
    o.steps = 3;
    o.lr.base = 0.01F;
    o.eval_every = -1;
    const tiny_extras extras{.net = net, .train = &samples, .test = &test};
    const auto found = train_tiny(o, extras);
    o.executor = executor_kind::oracle;
    const auto wanted = train_tiny(o, extras);
    EXPECT_EQ(found.summary.weights_sha256, wanted.summary.weights_sha256);
    EXPECT_EQ(found.summary.state_sha256, wanted.summary.state_sha256);
    EXPECT_EQ(found.seen.steps.back().loss, wanted.seen.steps.back().loss);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FrozenModels, ::testing::ValuesIn(subjects()),
                         [](const auto& test) { return std::string(test.param.name); });

} // namespace
} // namespace penstock::testing
