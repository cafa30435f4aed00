// Which samples a micro-batch holds, and what a bad data set makes of it.
#include "actors/labelled_images.hpp"
#include "actors/source/microbatch_loader.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

namespace penstock::actors {
namespace {

using ::testing::ThrowsMessage;

// Sample i is the pair (i, epoch) with label i % 3, until told otherwise.
class counting_images : public labelled_images {
public:
  explicit counting_images(std::int64_t samples, bool shuffled = true) : samples_(samples), shuffled_(shuffled) {}
  std::int64_t size() const override { return samples_; }
  tensor_spec input() const override { return {dtype::f32, {1, 2}}; }
  std::int64_t classes() const override { return 3; }
  bool shuffled() const override { return shuffled_; }
  std::int64_t load(const sample_key& key, bool training, float* input) const override {
    if (key.index == throws_at) throw error("[data] cannot read image");
    input[0] = static_cast<float>(key.index);
    input[1] = training ? static_cast<float>(key.epoch) : -1.0F;
    if (key.index == nan_at) input[1] = std::numeric_limits<float>::quiet_NaN();
    return key.index == bad_at ? bad_label : key.index % 3;
  }
  std::string description() const override { return "counting"; }
  std::int64_t throws_at = -1;
  std::int64_t nan_at = -1;
  std::int64_t bad_at = -1;
  std::int64_t bad_label = 0;

private:
  std::int64_t samples_;
  bool shuffled_;
};

// The model that reads them does nothing with them.
std::shared_ptr<const model> reader() {
  model_builder b("reader", {1, 2});
  const auto flat = b.add("flat", layers::flatten(), {b.input()});
  return std::make_shared<const model>(
      b.build(b.add("fc", layers::linear({.in_features = 2, .out_features = 3}), {flat})));
}

microbatch_loader loader_of(const dataset& data, std::int64_t batch, int microbatches, std::uint64_t seed,
                            bool training) {
  return {reader(), data, {.batch = batch, .seed = seed, .training = training}, microbatches};
}

std::vector<std::int64_t> samples_of(const loaded_microbatch& m) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < m.info.samples; ++i)
    all.push_back(static_cast<std::int64_t>(m.inputs[0].data<float>()[2 * i]));
  return all;
}

std::vector<std::int64_t> epoch_of(microbatch_loader& loader, std::int64_t epoch, int microbatches) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < loader.minibatches().per_epoch(); ++i)
    for (int m = 0; m < microbatches; ++m)
      for (const auto s : samples_of(loader.load(epoch * loader.minibatches().per_epoch() + i, m)))
        all.push_back(s);
  return all;
}

TEST(MicrobatchLoader, GivesEachSampleOnceAnEpochInTheEpochsOrder) {
  const counting_images data(11);
  for (const int microbatches : {1, 3, 5}) {
    auto loader = loader_of(data, 4, microbatches, 7, true);
    for (const std::int64_t epoch : {0, 1, 2, 0}) // and an old one again
      EXPECT_EQ(epoch_of(loader, epoch, microbatches), epoch_order(11, 7, epoch, true)) << microbatches;
  }
}

TEST(MicrobatchLoader, MicrobatchesDifferByOneSampleAndMayBeEmpty) {
  const counting_images data(11);
  auto loader = loader_of(data, 4, 3, 7, true);
  EXPECT_EQ(loader.load(0, 0).info.samples, 2);
  EXPECT_EQ(loader.load(0, 1).info.samples, 1);
  EXPECT_EQ(loader.load(2, 2).info.counts[0], 3);
  auto many = loader_of(data, 4, 6, 7, true);
  const auto empty = many.load(2, 3);
  EXPECT_EQ(empty.info.samples, 0);
  EXPECT_EQ(empty.info.counts[0], 3);
  EXPECT_FALSE(empty.inputs[0]);
  EXPECT_FALSE(empty.inputs[1]);
  EXPECT_ANY_THROW(loader.load(0, 3));
  EXPECT_ANY_THROW(loader.load(0, -1));
}

TEST(MicrobatchLoader, KeepsLabelsAndShapesWithTheirSamples) {
  const counting_images data(11);
  auto loader = loader_of(data, 4, 1, 7, true);
  const auto m = loader.load(3 + 1, 0); // of the second epoch
  EXPECT_EQ(m.inputs[0].dims(), (shape{4, 1, 2}));
  EXPECT_EQ(m.inputs[1].dims(), (shape{4}));
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(m.inputs[1].data<std::int64_t>()[i], static_cast<std::int64_t>(m.inputs[0].data<float>()[2 * i]) % 3);
    EXPECT_EQ(m.inputs[0].data<float>()[2 * i + 1], 1) << "augmented by its epoch";
  }
}

TEST(MicrobatchLoader, EvaluatesInFileOrderWithoutAugmentation) {
  const counting_images data(5);
  auto loader = loader_of(data, 2, 1, 7, false);
  EXPECT_THAT(epoch_of(loader, 0, 1), ::testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(epoch_of(loader, 3, 1), ::testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(loader.load(0, 0).inputs[0].data<float>()[1], -1);
  const counting_images ordered(5, false);
  auto training = loader_of(ordered, 2, 1, 7, true);
  EXPECT_THAT(epoch_of(training, 1, 1), ::testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(MicrobatchLoader, RefusesALabelOutOfRange) {
  counting_images data(5, false);
  data.bad_at = 3;
  auto loader = loader_of(data, 2, 1, 7, true);
  for (const std::int64_t label : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    data.bad_label = label;
    EXPECT_THAT([&] { loader.load(1, 0); },
                ThrowsMessage<error>("[data] sample 3 has label " + std::to_string(label) + "; wanted 0 to 2"));
    EXPECT_NO_THROW(loader.load(0, 0));
  }
}

TEST(MicrobatchLoader, PassesOnWhatTheDataSetThrows) {
  counting_images data(5, false);
  data.throws_at = 0;
  auto loader = loader_of(data, 2, 1, 7, true);
  EXPECT_THAT([&] { loader.load(0, 0); }, ThrowsMessage<error>("[data] cannot read image"));
}

TEST(MicrobatchLoader, LoadsFromManyThreadsAtOnce) {
  const counting_images data(40);
  auto loader = loader_of(data, 4, 2, 7, true);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 40; ++i) { // four epochs, each thread from another place
        const auto minibatch = (i + 10 * t) % 40;
        const auto order = epoch_order(40, 7, minibatch / 10, true);
        const auto found = samples_of(loader.load(minibatch, 1));
        if (!std::equal(found.begin(), found.end(), order.begin() + minibatch % 10 * 4 + 2)) ++wrong;
      }
    });
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(MicrobatchLoader, RefusesAPixelThatIsNoNumberByItsPlace) {
  counting_images data(9, false);
  data.nan_at = 5;
  for (const bool training : {true, false}) {
    auto loader = loader_of(data, 4, 1, 1, training);
    loader.load(0, 0);
    EXPECT_THAT([&] { loader.load(1, 0); },
                ThrowsMessage<error>("[data] sample 5 holds nan at [0, 1]; wanted finite numbers (counting)"));
  }
}

} // namespace
} // namespace penstock::actors
