// Traps that users of other frameworks met with sequence models in pipelines, and the test that keeps each shut.
// Those without a file are here.
//  1 tied copies drift apart: TiedCopiesAreEqualToTheBitAfterManyStepsAndAResume, and Ties.* in sequence_test.cpp
//  2 shapes of the first batch stay: LengthsMayAlternateBetweenFiveAndFifty
//  3 shapes are exchanged apart from their tensors: AShapeTravelsWithinItsMessage
//  4 later stages lack masks: PaddingChangesNoLossOnAnyStage
//  5 a mask of the whole batch meets a part: ASliceOfABatchIsComputedAsInTheBatch
//  6 integers hang or fail at a cut: IntegersCrossEveryCutAndGetNoGradient
//  7 a mean of means: MicrobatchesOfUnevenTokenCountsAddUpToTheirMinibatch in sequence_test.cpp
//  8 a new shape wipes gradients: GradientsOfTwoLengthsAddUp
//  9 recomputation draws anew: RecomputationDrawsTheSameDropoutForEveryLength in sequence_test.cpp
// 10 names in files: AFileOfEverySpellingLoadsIntoStagesOfATiedHead in apps/bert_test.cpp
#include "actors/made_up_data.hpp"
#include "apps/data/sequence_tensors.hpp"
#include "apps/models/registry.hpp"
#include "kernels/device.hpp"
#include "kernels/initialise.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/losses/token_cross_entropy.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/segment.hpp"
#include "kernels/stream.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace penstock::testing {
namespace {

using actors::executor_kind;
using actors::made_up_data;

std::shared_ptr<const model> narrow_bert(const std::string& head, double dropout = 0.1) {
  apps::model_options o;
  o.width = 0.01;
  o.vocabulary = 50;
  o.length = 10;
  o.dropout = dropout;
  o.own["head"] = head;
  return std::make_shared<const model>(apps::find_model("bert").build(o));
}

run_setup options_of(const std::string& schedule, std::vector<int> replicas, int microbatches) {
  auto o = tiny_options();
  o.schedule = schedule;
  o.replicas = std::move(replicas);
  o.microbatches = microbatches;
  o.steps = 6;
  return o;
}

void expect_same_run(const training_result& found, const training_result& wanted) {
  EXPECT_EQ(found.summary.weights_sha256, wanted.summary.weights_sha256);
  ASSERT_EQ(found.seen.evaluations.size(), wanted.seen.evaluations.size());
  for (std::size_t i = 0; i < wanted.seen.evaluations.size(); ++i)
    EXPECT_EQ(found.seen.evaluations[i].found.loss, wanted.seen.evaluations[i].found.loss);
}

// Minibatches of two data sets in turn: as different in length as they may be.
class alternating final : public actors::dataset {
public:
  alternating(const model& net, std::int64_t samples)
      : parts_{made_up_data(net, samples, 1, {5, 1}), made_up_data(net, samples, 2, {50, 8})} {}
  std::int64_t size() const override { return parts_[0].size(); }
  std::string description() const override { return "now short, now long"; }
  std::vector<actors::data_input> inputs() const override { return parts_[0].inputs(); }
  std::vector<std::string> counts() const override { return parts_[0].counts(); }
  std::vector<std::string> extents() const override { return parts_[0].extents(); }
  actors::minibatches_ptr minibatches(const actors::batching& how) const override {
    class list final : public actors::minibatch_list {
    public:
      list(actors::minibatches_ptr a, actors::minibatches_ptr b) : parts_{std::move(a), std::move(b)} {}
      std::int64_t per_epoch() const override { return parts_[0]->per_epoch(); }
      actors::minibatch_facts facts(std::int64_t m) const override { return of(m).facts(m); }
      void load(std::int64_t m, std::int64_t first, std::span<tensor> into) const override {
        of(m).load(m, first, into);
      }
      std::int64_t least_samples() const override { return parts_[0]->least_samples(); }

    private:
      const actors::minibatch_list& of(std::int64_t m) const { return *parts_[static_cast<std::size_t>(m % 2)]; }
      std::array<actors::minibatches_ptr, 2> parts_;
    };
    return std::make_shared<list>(parts_[0].minibatches(how), parts_[1].minibatches(how));
  }

private:
  std::array<made_up_data, 2> parts_;
};

named_tensors checkpointed(const std::filesystem::path& folder, int stage, memory_pool& pool) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().filename() == "stage-" + std::to_string(stage) + ".safetensors") found.push_back(entry.path());
  if (found.empty()) return {};
  return read_safetensors(*std::max_element(found.begin(), found.end()), pool).tensors;
}

TEST(Traps, TiedCopiesAreEqualToTheBitAfterManyStepsAndAResume) {
  const auto net = narrow_bert("pretraining");
  const made_up_data samples(*net, 40), test(*net, 6, 2);
  for (const char* schedule : {"1f1b", "2bw"}) {
    const testing_support::temporary_folder folder;
    auto o = options_of(schedule, {1, 1, 1}, 3);
    o.optimizer.name = "adamw";
    o.steps = 10;
    o.checkpoint = folder.path() / "c";
    train_tiny(o, {.net = net, .train = &samples, .test = &test});
    o.steps = 20;
    o.resume = true;
    train_tiny(o, {.net = net, .train = &samples, .test = &test});
    memory_pool pool;
    const auto first = checkpointed(o.checkpoint, 0, pool), last = checkpointed(o.checkpoint, 2, pool);
    int compared = 0;
    for (const auto& [name, t] : first) {
      if (name.find("bert.embeddings.word_embeddings.weight") == std::string::npos) continue;
      ASSERT_TRUE(last.contains(name)) << schedule << ": " << name;
      EXPECT_EQ(std::memcmp(last.at(name).raw(), t.raw(), t.bytes()), 0) << schedule << ": " << name;
      ++compared;
    }
    EXPECT_EQ(compared, 3) << "the table and two moments";
  }
}

TEST(Traps, LengthsMayAlternateBetweenFiveAndFifty) {
  const auto net = narrow_bert("pretraining");
  const alternating samples(*net, 44), test(*net, 20);
  const tiny_extras extras{.net = net, .train = &samples, .test = &test};
  const auto one = train_tiny(options_of("1f1b", {1}, 2), extras);
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
    expect_same_run(train_tiny(options_of(schedule, {1, 1, 1, 1}, 2), extras), one);
  auto o = options_of("2bw", {1, 1}, 2);
  const auto found = train_tiny(o, extras);
  o.executor = executor_kind::oracle;
  expect_same_run(found, train_tiny(o, extras));
}

TEST(Traps, AShapeTravelsWithinItsMessage) {
  const auto net = narrow_bert("classification");
  const alternating samples(*net, 44), test(*net, 20);
  const tiny_extras extras{.net = net, .train = &samples, .test = &test};
  auto o = options_of("pipedream", {1, 2, 1}, 1);
  const auto found = train_tiny_ranks(o, 4, extras);
  o.executor = executor_kind::oracle;
  expect_same_run(found, train_tiny(o, extras));
}

// Six samples of 3 to 5 tokens; what is behind them are words like any other.
named_tensors padded_to(std::int64_t time, memory_pool& pool) {
  const auto whole = [&](const shape& dims, const auto& value) {
    auto t = tensor::allocate(pool, dtype::i64, dims, memory_use::scratch);
    for (std::int64_t i = 0; i < t.elements(); ++i)
      t.data<std::int64_t>()[i] = value(i);
    return t;
  };
  const shape rows{6, time}, numbers{6};
  return {{"input_ids", whole(rows, [&](std::int64_t i) { return 1 + (i / time * 11 + i % time * 7) % 49; })},
          {"token_type_ids", whole(rows, [&](std::int64_t i) { return i % time < 2 ? 0 : 1; })},
          {"lengths", whole(numbers, [](std::int64_t i) { return 3 + i % 3; })},
          {"labels", whole(numbers, [](std::int64_t i) { return i % 4; })},
          {"start_positions", whole(numbers, [](std::int64_t i) { return i % 3; })},
          {"end_positions", whole(numbers, [](std::int64_t i) { return 1 + i % 2; })}};
}

TEST(Traps, PaddingChangesNoLossOnAnyStage) {
  const auto net = narrow_bert("classification", 0);
  memory_pool pool;
  const auto tight = apps::sequence_tensors(*net, padded_to(5, pool), "tight");
  const auto loose = apps::sequence_tensors(*net, padded_to(17, pool), "loose");
  for (const std::size_t stages : {1, 4}) {
    auto o = options_of("1f1b", std::vector<int>(stages, 1), 1);
    o.batch = 6;
    const auto wanted = train_tiny(o, {.net = net, .train = tight.get(), .test = tight.get()}).seen;
    const auto found = train_tiny(o, {.net = net, .train = loose.get(), .test = loose.get()}).seen;
    ASSERT_EQ(found.steps.size(), wanted.steps.size());
    for (std::size_t i = 0; i < wanted.steps.size(); ++i)
      EXPECT_NEAR(found.steps[i].loss, wanted.steps[i].loss, 1e-5) << "step " << i << ", " << stages << " stages";
    EXPECT_NEAR(found.evaluations.back().found.loss, wanted.evaluations.back().found.loss, 1e-5);
  }
}

// -- without a pipeline -----------------------------------------------------------------------------------------------

class BertAlone : public ::testing::Test {
protected:
  struct filled {
    std::vector<tensor> inputs;
    microbatch_info info;
  };
  filled samples_of(backend& ops, const segment& range, const named_tensors& from, std::int64_t first,
                    std::int64_t count) {
    filled result;
    for (const auto id : range.fed()) {
      const auto& all = from.at(net_->value(id).name);
      auto dims = all.dims();
      const auto row = all.elements() / dims[0];
      dims[0] = count;
      auto t = ops.allocate(dtype::i64, dims, memory_use::scratch);
      std::copy_n(all.data<std::int64_t>() + first * row, count * row, t.data<std::int64_t>());
      result.inputs.push_back(std::move(t));
    }
    result.info = {.samples = count, .counts = {6}, .extents = {from.at("input_ids").dim(1)}};
    return result;
  }
  std::vector<tensor> weights_of(backend& ops, const segment& range) {
    const auto drawn = initial_weights(*net_, 5, *device_->host_memory());
    const auto formats = range.parameter_formats(ops);
    std::vector<tensor> weights;
    for (std::size_t i = 0; i < formats.size(); ++i)
      weights.push_back(ops.reorder(drawn.at(range.parameters()[i].name), formats[i], memory_use::weights));
    return weights;
  }
  void compute(const std::function<void(backend&, const segment&)>& work) {
    const segment range(net_, 0, static_cast<int>(net_->layers().size()));
    device_->create_stream({.name = "traps", .threads = 1})->run([&](backend& ops) { work(ops, range); });
  }

  memory_pool pool_;
  std::shared_ptr<device> device_ = open_device({device_kind::cpu, 0});
  std::shared_ptr<const model> net_;
};

TEST_F(BertAlone, ASliceOfABatchIsComputedAsInTheBatch) {
  net_ = narrow_bert("embed", 0);
  const auto all = padded_to(9, pool_);
  compute([&](backend& ops, const segment& range) {
    const auto weights = weights_of(ops, range);
    const auto vectors = [&](std::int64_t first, std::int64_t count) {
      auto given = samples_of(ops, range, all, first, count);
      const segment_call call{.mode = phase::evaluation, .info = given.info};
      return ops.to_plain(range.forward(ops, call, std::move(given.inputs), weights, {}, nullptr).at(0));
    };
    const auto whole = vectors(0, 6), part = vectors(2, 3);
    const auto row = whole.elements() / 6;
    for (std::int64_t i = 0; i < 3 * row; ++i)
      EXPECT_NEAR(part.data<float>()[i], whole.data<float>()[2 * row + i], 1e-6) << i;
  });
}

TEST_F(BertAlone, GradientsOfTwoLengthsAddUp) {
  net_ = narrow_bert("span");
  compute([&](backend& ops, const segment& range) {
    const auto weights = weights_of(ops, range);
    const auto pass = [&](std::int64_t time, std::vector<tensor>& gradients) {
      auto given = samples_of(ops, range, padded_to(time, pool_), 0, 6);
      const segment_call call{.seed = 3, .info = given.info};
      segment_activations kept;
      segment_losses losses;
      range.forward(ops, call, std::move(given.inputs), weights, {}, &kept, &losses);
      range.backward(ops, call, std::vector<tensor>(range.outputs().size()), weights, std::move(kept), gradients,
                     std::move(losses));
    };
    std::vector<tensor> both(weights.size()), shorter(weights.size()), longer(weights.size());
    pass(5, both);
    pass(50, both);
    pass(5, shorter);
    pass(50, longer);
    for (std::size_t i = 0; i < both.size(); ++i) {
      ops.get<elementwise_ops>().accumulate(shorter[i], longer[i]);
      EXPECT_EQ(std::memcmp(ops.to_plain(both[i]).raw(), ops.to_plain(shorter[i]).raw(), ops.to_plain(both[i]).bytes()),
                0)
          << range.parameters()[i].name;
    }
  });
}

// -- integers between layers ------------------------------------------------------------------------------------------

// Makes nothing of ids but ids, on the host as on a device.
class pass_ids final : public layer {
public:
  std::string_view kind() const override { return "pass_ids"; }
  std::vector<tensor_spec> infer(std::span<const tensor_spec> inputs) const override { return {inputs[0]}; }
  forward_result forward(run_context&, std::span<tensor> inputs, std::span<const tensor>) const override {
    return {{inputs[0]}, {}};
  }
  backward_result backward(run_context&, std::span<tensor>, std::span<const tensor>,
                           std::span<const tensor>) const override {
    return {{tensor{}}, {}};
  }
};

TEST(Traps, IntegersCrossEveryCutAndGetNoGradient) {
  model_builder b("ids");
  const auto time = b.extent("time", 6, 9);
  const auto ids = b.input("ids", dtype::i64, {time}, {.below = 11});
  const auto labels = b.input("labels", dtype::i64, {time}, {.below = 11});
  const auto passed = b.add("pass", std::make_shared<pass_ids>(), {ids});
  auto x = b.add("embed", layers::embedding(11, 8), {ids});
  x = b.add("fc1", layers::linear({.in_features = 8, .out_features = 8}), {x});
  x = b.add("act", layers::gelu(), {x});
  const auto again = b.add("look", layers::embedding(11, 8), {passed});
  x = b.add("add", layers::add(), {x, again});
  const auto words = b.add("head", layers::linear({.in_features = 8, .out_features = 11}), {x});
  b.loss("loss", losses::token_cross_entropy(), {words, labels}, {.counted_by = "tokens"});
  const auto net = std::make_shared<const model>(b.build());
  const made_up_data samples(*net, 44), test(*net, 20, 2);
  const tiny_extras extras{.net = net, .train = &samples, .test = &test};
  const auto one = train_tiny(options_of("1f1b", {1}, 2), extras);
  for (const std::size_t stages : {2, 3, 7})
    for (const char* schedule : {"1f1b", "zb-h1"})
      expect_same_run(train_tiny(options_of(schedule, std::vector<int>(stages, 1), 2), extras), one);
  auto o = options_of("pipedream", {1, 1, 1, 1, 1, 1, 1}, 1);
  const auto found = train_tiny_ranks(o, 3, extras);
  o.executor = executor_kind::oracle;
  expect_same_run(found, train_tiny(o, extras));
}

} // namespace
} // namespace penstock::testing
