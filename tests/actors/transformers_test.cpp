// The transformers that come with Penstock, and S2VT, narrow, through the schedules: what actors leave is what the
// oracle leaves.
#include "actors/made_up_data.hpp"
#include "apps/models/registry.hpp"
#include "tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

using actors::executor_kind;
using actors::made_up_data;

struct transformer {
  const char* name;
  const char* model;
  apps::model_options options;
};

std::vector<transformer> transformers() {
  apps::model_options vit;
  vit.image_size = 32;
  vit.width = 0.01;
  vit.dropout = 0.1;
  auto of_hf = vit;
  of_hf.own["names"] = "hf";
  std::vector<transformer> all{{"VisionTransformer", "vit_b_16", vit},
                               {"VisionTransformerOfHuggingFace", "vit_b_16", of_hf}};
  for (const auto& [name, head] : {std::pair("BertClassification", "classification"),
                                   {"BertSpan", "span"},
                                   {"BertPretraining", "pretraining"},
                                   {"BertPretrainingUntied", "pretraining"}}) {
    apps::model_options bert;
    bert.width = 0.01;
    bert.vocabulary = 50;
    bert.length = 10;
    bert.own["head"] = head;
    if (std::string_view(name).ends_with("Untied")) bert.own["untied"] = "yes";
    all.push_back({name, "bert", bert});
  }
  apps::model_options s2vt; // biases at twice the rate, an input for the first layer and one for the last
  s2vt.width = 0.01;
  s2vt.vocabulary = 17;
  s2vt.length = 7;
  s2vt.own["frame-size"] = "12";
  all.push_back({"S2vt", "s2vt", s2vt});
  return all;
}

struct setting {
  const char* schedule;
  std::vector<int> replicas;
  int microbatches;
};

class Transformers : public ::testing::TestWithParam<transformer> {
protected:
  training_result train(const setting& s, executor_kind executor) {
    auto o = tiny_options();
    o.schedule = s.schedule;
    o.replicas = s.replicas;
    o.microbatches = s.microbatches;
    o.executor = executor;
    o.steps = 4;
    const auto net = std::make_shared<const model>(apps::find_model(GetParam().model).build(GetParam().options));
    const made_up_data samples(*net, 20), test(*net, 6, 2);
    return train_tiny(o, {.net = net, .train = &samples, .test = &test});
  }
};

TEST_P(Transformers, ActorsLeaveTheOraclesBits) {
  for (const auto& s :
       {setting{"pipedream", {1}, 1}, setting{"pipedream", {1, 1}, 1}, setting{"pipedream", {2, 1, 1}, 1},
        setting{"2bw", {1, 1}, 2}, setting{"1f1b", {1, 1, 1, 1}, 2}, setting{"zb-h1", {1, 1, 1}, 2}}) {
    const bool is_tied = std::string_view(GetParam().name) == "BertPretraining";
    if (is_tied && std::string_view(s.schedule) == "pipedream" && s.replicas.size() > 1) continue; // it is refused
    SCOPED_TRACE(std::string(s.schedule) + " on " + ::testing::PrintToString(s.replicas));
    const auto found = train(s, executor_kind::actors), wanted = train(s, executor_kind::oracle);
    EXPECT_EQ(found.summary.weights_sha256, wanted.summary.weights_sha256);
    ASSERT_EQ(found.seen.evaluations.size(), wanted.seen.evaluations.size());
    EXPECT_EQ(found.seen.evaluations.back().found.loss, wanted.seen.evaluations.back().found.loss);
  }
}

TEST_P(Transformers, ASynchronousScheduleIsOneStage) {
  const auto one = train({"1f1b", {1}, 2}, executor_kind::actors);
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"})
    EXPECT_EQ(train({schedule, {1, 1, 1, 1}, 2}, executor_kind::actors).summary.weights_sha256,
              one.summary.weights_sha256)
        << schedule;
}

INSTANTIATE_TEST_SUITE_P(Models, Transformers, ::testing::ValuesIn(transformers()),
                         [](const auto& test) { return std::string(test.param.name); });

} // namespace
} // namespace penstock::testing
