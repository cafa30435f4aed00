// A narrow AWD LSTM over a stream of text, with state from minibatch to minibatch: what actors leave is what the oracle
// leaves, through schedules, replicas, micro-batches, evaluations and resumption.
#include "apps/data/text_stream.hpp"
#include "apps/models/registry.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace penstock::testing {
namespace {

using actors::executor_kind;

struct setting {
  const char* schedule;
  std::vector<int> replicas;
  int microbatches;
};

class LanguageModel : public ::testing::Test {
protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += "w" + std::to_string(i * i % 17) + (i % 7 == 6 ? "\n" : " ");
    testing_support::write_file(folder_ / "train.txt", text);
    testing_support::write_file(folder_ / "valid.txt", text.substr(0, 300));
    data_ = apps::open_text_stream(folder_.path().string(), {.length = 9});
  }

  run_setup options(const setting& s) const {
    run_setup o;
    o.schedule = s.schedule;
    o.replicas = s.replicas;
    o.microbatches = s.microbatches;
    o.threads = 1;
    o.pin = false;
    o.batch = 4;
    o.epochs = 2;
    o.lr.base = 2;
    o.optimizer = {.name = "sgd", .momentum = 0, .weight_decay = 1e-4F};
    const bool is_apart = std::string_view(s.schedule) == "pipedream" || std::string_view(s.schedule) == "2bw";
    (is_apart ? o.clip_stage_norm : o.clip_norm) = 0.5;
    return o;
  }

  training_result train(const run_setup& o, bool untied = false) const {
    apps::model_options geometry;
    geometry.width = 0.01;
    geometry.vocabulary = 19;
    geometry.length = 9;
    if (untied) geometry.own["untied"] = "yes";
    const auto net = std::make_shared<const model>(apps::find_model("awd_lm").build(geometry));
    return train_tiny(o, {.net = net, .train = data_.train.get(), .test = data_.test.get()});
  }

  testing_support::temporary_folder folder_;
  apps::text_stream_pair data_;
};

TEST_F(LanguageModel, ActorsLeaveTheOraclesBits) {
  for (const auto& s : {setting{"pipedream", {1}, 1}, setting{"pipedream", {1, 1, 1}, 1},
                        setting{"pipedream", {2, 1, 2}, 1}, setting{"2bw", {1, 1}, 2}, setting{"1f1b", {2, 1, 1}, 2},
                        setting{"gpipe", {1, 2}, 4}, setting{"zb-h1", {1, 1, 1}, 2}}) {
    SCOPED_TRACE(std::string(s.schedule) + " on " + ::testing::PrintToString(s.replicas));
    auto o = options(s);
    const bool is_async = o.clip_stage_norm > 0 && s.replicas.size() > 1;
    const auto found = train(o, is_async);
    o.executor = executor_kind::oracle;
    const auto wanted = train(o, is_async);
    EXPECT_EQ(found.summary.weights_sha256, wanted.summary.weights_sha256);
    EXPECT_EQ(found.summary.state_sha256, wanted.summary.state_sha256);
    ASSERT_EQ(found.seen.evaluations.size(), wanted.seen.evaluations.size());
    EXPECT_EQ(found.seen.evaluations.back().found.loss, wanted.seen.evaluations.back().found.loss);
  }
}

TEST_F(LanguageModel, ASynchronousScheduleIsOneStageAndTheTieIsOneTensor) {
  auto o = options({"1f1b", {1}, 2});
  const auto one = train(o);
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    o.schedule = schedule;
    o.replicas = {1, 1, 1, 1};
    EXPECT_EQ(train(o).summary.weights_sha256, one.summary.weights_sha256) << schedule;
  }
}

// The copies would drift.
TEST_F(LanguageModel, ATieAcrossStagesIsRefusedWhereStagesUpdateOrClipApart) {
  using ::testing::HasSubstr;
  using ::testing::ThrowsMessage;
  for (const auto& [schedule, why] : {std::pair("pipedream", "stages update apart"),
                                      std::pair("2bw", "--clip-stage-norm scales its gradient otherwise"),
                                      std::pair("1f1b", "--clip-stage-norm scales its gradient otherwise")}) {
    auto o = options({schedule, {1, 1}, std::string_view(schedule) == "pipedream" ? 1 : 2});
    o.clip_norm = 0;
    o.clip_stage_norm = 0.5;
    EXPECT_THAT([&] { train(o); }, ThrowsMessage<usage_error>(HasSubstr(why))) << schedule;
    o.replicas = {1};
    EXPECT_NO_THROW(train(o)) << schedule;
  }
}

// AR and TAR are means over the minibatch, whatever its columns are split into. Without dropout, whose masks are a
// micro-batch's own.
TEST_F(LanguageModel, MicrobatchesChangeNothingButRounding) {
  const auto losses = [&](int microbatches) {
    apps::model_options geometry;
    geometry.width = 0.01;
    geometry.vocabulary = 19;
    geometry.length = 9;
    geometry.dropout = 0;
    const auto net = std::make_shared<const model>(apps::find_model("awd_lm").build(geometry));
    const auto result = train_tiny(options({"1f1b", {1}, microbatches}),
                                   {.net = net, .train = data_.train.get(), .test = data_.test.get()});
    std::vector<double> all;
    for (const auto& step : result.seen.steps)
      all.push_back(step.loss);
    return all;
  };
  const auto one = losses(1), three = losses(3);
  ASSERT_EQ(one.size(), three.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_NEAR(one[i], three[i], 1e-4) << "step " << i + 1;
}

TEST_F(LanguageModel, PerplexityIsOverEveryPredictionOfTheStream) {
  for (const std::int64_t batch : {1, 3, 4}) {
    auto o = options({"pipedream", {1}, 1});
    o.eval_batch = batch;
    const auto found = train(o).seen.evaluations.back().found;
    EXPECT_EQ(found.metrics.counts[1], static_cast<double>(data_.test->size() - 1));
    const auto shown =
        std::find_if(found.shown.begin(), found.shown.end(), [](const auto& s) { return s.name == "perplexity"; });
    ASSERT_NE(shown, found.shown.end());
    EXPECT_NEAR(shown->value, std::exp(found.loss), 1e-9);
  }
}

TEST_F(LanguageModel, ResumesInTheMiddleOfAStream) {
  for (const auto& s : {setting{"pipedream", {2, 1}, 1}, setting{"1f1b", {1, 1}, 2}}) {
    SCOPED_TRACE(s.schedule);
    auto o = options(s);
    o.checkpoint_every = 4;
    o.checkpoint = folder_ / (std::string(s.schedule) + "-whole");
    const bool is_async = std::string_view(s.schedule) == "pipedream";
    const auto whole = train(o, is_async);
    o.checkpoint = folder_ / (std::string(s.schedule) + "-parts");
    o.steps = 4;
    train(o, is_async);
    o.steps = 0;
    o.resume = true;
    const auto resumed = train(o, is_async);
    EXPECT_EQ(resumed.summary.weights_sha256, whole.summary.weights_sha256);
  }
}

} // namespace
} // namespace penstock::testing
