// A narrow AWD LSTM against PyTorch in float64 through ten pieces of a stream with state from each to the next, two
// uneven micro-batches a minibatch: gradients by name, losses, ten steps. And what its dropouts must leave alone.
#include "apps/models/registry.hpp"
#include "kernels/initialise.hpp"
#include "kernels/model_metrics.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/segment.hpp"
#include "kernels/stream.hpp"
#include "tests/parity/sketches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace penstock {
namespace {

using namespace parity;

// As in make_awd_fixtures.py.
constexpr std::int64_t vocabulary = 50, columns = 5, length = 7;
constexpr std::array<std::int64_t, 10> lengths{7, 5, 9, 2, 7, 6, 3, 8, 7, 4};
constexpr float rate = 2;
constexpr double clip = 0.25;
constexpr std::array<std::int64_t, 2> microbatches{3, 2}; // columns of each

model narrow_awd(double dropout) {
  apps::model_options options;
  options.width = 0.02;
  options.vocabulary = vocabulary;
  options.length = length;
  options.dropout = dropout;
  return apps::find_model("awd_lm").build(options);
}

class awd_run {
public:
  awd_run(std::shared_ptr<const model> net, backend& ops, memory_pool& host)
      : net_(std::move(net)), range_(net_, 0, static_cast<int>(net_->layers().size())), ops_(ops) {
    const auto drawn = initial_weights(*net_, seed, host);
    const auto formats = range_.parameter_formats(ops);
    const auto& parameters = range_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      weights_.push_back(range_.is_repeat(i)
                             ? weights_[parameters[i].first_use]
                             : ops.reorder(drawn.at(parameters[i].name), formats[i], memory_use::weights));
    const word_stream words("tokens");
    const auto count = columns * (std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) + 1);
    for (std::int64_t i = 0; i < count; ++i)
      tokens_.push_back(static_cast<std::int64_t>(words[i] % vocabulary));
  }

  const segment& range() const { return range_; }
  std::vector<tensor>& weights() { return weights_; }

  /// Adds the gradients of a minibatch to empty ones; its loss. Evaluating, only the loss.
  double pass(std::size_t step, phase mode, std::vector<tensor>* gradients) {
    const auto begin = std::accumulate(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(step), 0L);
    loss_metrics sums;
    sums.counts = {columns, static_cast<double>(columns * lengths[step])};
    std::int64_t first = 0;
    for (std::size_t m = 0; m < microbatches.size(); ++m) {
      segment_call call{.mode = mode,
                        .seed = seed,
                        .minibatch = static_cast<std::int64_t>(step),
                        .microbatch = static_cast<std::int32_t>(m),
                        .info = {.samples = microbatches[m], .extents = {lengths[step]}}};
      std::copy(sums.counts.begin(), sums.counts.end(), call.info.counts.begin());
      std::vector<tensor> handed_on;
      call.carried = carried_[m];
      call.carried_out = &handed_on;
      std::vector<tensor> inputs;
      for (const auto id : range_.fed())
        inputs.push_back(
            piece(first, microbatches[m], begin + (net_->value(id).name == "labels" ? 1 : 0), lengths[step]));
      segment_activations kept;
      segment_losses losses;
      range_.forward(ops_, call, inputs, weights_, {}, gradients != nullptr ? &kept : nullptr, &losses);
      for (std::size_t l = 0; l < losses.size(); ++l)
        if (losses[l].sums) // else it is for training alone
          sums.sums[net_->losses()[l].first_sum] += *losses[l].sums.data<double>();
      if (gradients != nullptr)
        range_.backward(ops_, call, {}, weights_, std::move(kept), *gradients, std::move(losses));
      carried_[m] = std::move(handed_on);
      first += microbatches[m];
    }
    return mean_loss(*net_, sums, mode);
  }

  void add_uses(std::vector<tensor>& gradients) {
    for (std::size_t i = gradients.size(); i-- > 0;)
      if (range_.is_repeat(i))
        ops_.get<elementwise_ops>().accumulate(gradients[range_.parameters()[i].first_use], gradients[i]);
  }

private:
  tensor piece(std::int64_t column, std::int64_t count, std::int64_t begin, std::int64_t steps) {
    auto t = ops_.allocate(dtype::i64, {count, steps}, memory_use::scratch);
    const auto row = static_cast<std::int64_t>(tokens_.size()) / columns;
    for (std::int64_t c = 0; c < count; ++c)
      std::copy_n(tokens_.begin() + (column + c) * row + begin, steps, t.data<std::int64_t>() + c * steps);
    return t;
  }

  std::shared_ptr<const model> net_;
  segment range_;
  backend& ops_;
  std::vector<tensor> weights_;
  std::vector<std::int64_t> tokens_;
  std::array<std::vector<tensor>, microbatches.size()> carried_;
};

class AwdParity : public testing::TestWithParam<bool> { // plain loops instead of the device's library
protected:
  void SetUp() override {
    device_ = open_device({device_kind::cpu, 0});
    fixture_ = read_safetensors(std::string(PENSTOCK_PARITY_FIXTURES "/awd_lm.safetensors"), pool_).tensors;
    worker_ = device_->create_stream({.name = "parity", .threads = 1, .reference = GetParam()});
  }

  awd_run start(backend& ops, double dropout) {
    return {std::make_shared<const model>(narrow_awd(dropout)), ops, *device_->host_memory()};
  }

  float clipped(backend& ops, const segment& range, const std::vector<tensor>& gradients) {
    double squares = 0;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (range.is_repeat(i)) continue;
      const auto plain = ops.to_plain(gradients[i]);
      for (std::int64_t k = 0; k < plain.elements(); ++k)
        squares += std::pow(static_cast<double>(plain.data<float>()[k]), 2);
    }
    return static_cast<float>(std::min(1.0, clip / (std::sqrt(squares) + 1e-6)));
  }

  void train(backend& ops) {
    auto run = start(ops, 0);
    const auto& parameters = run.range().parameters();
    const auto rule = make_optimizer({.name = "sgd", .momentum = 0, .weight_decay = 1.2e-6F});
    std::vector<optimizer_state> states(parameters.size());
    for (std::size_t step = 0; step < lengths.size(); ++step) {
      std::vector<tensor> gradients(parameters.size());
      const double loss = run.pass(step, phase::training, &gradients);
      run.add_uses(gradients);
      EXPECT_NEAR(loss, fixture_.at("losses").data<float>()[step], 5e-6) << "step " << step + 1;
      if (step == 0) expect_near(ops, "gradient:", parameters, gradients);
      const auto strange =
          ops.allocate_zeroed(dtype::i32, {static_cast<std::int64_t>(parameters.size())}, memory_use::scratch);
      const float factor = clipped(ops, run.range(), gradients);
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (!run.range().is_repeat(i)) // the other use is the same tensor
          rule->step(ops, rate * static_cast<float>(lengths[step]) / static_cast<float>(length), factor, true,
                     run.weights()[i], gradients[i], states[i], run.weights()[i], strange,
                     static_cast<std::int64_t>(i));
    }
    expect_near(ops, "final:", parameters, run.weights());
  }

  void expect_near(backend& ops, const std::string& kind, const std::vector<segment_parameter>& parameters,
                   const std::vector<tensor>& found) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (parameters[i].first_use != i) continue;
      const auto& name = parameters[i].name;
      ASSERT_TRUE(fixture_.contains(kind + name)) << name;
      const auto wanted = read_expectation(fixture_.at(kind + name));
      const double error = std::sqrt(squared_difference(name, ops.to_plain(found[i]), wanted));
      EXPECT_LE(error, sketch_slack * (3 * wanted.own_error + 1e-5) * wanted.norm) << kind << name;
    }
  }

  memory_pool pool_;
  std::shared_ptr<device> device_;
  named_tensors fixture_;
  std::shared_ptr<stream> worker_;
};

TEST_P(AwdParity, GradientsLossesAndTenStepsWithCarriedStateArePyTorchs) {
  worker_->run([&](backend& ops) { train(ops); });
}

// Masks of hidden weights in evaluation, or in the stored weights, are what others got wrong.
TEST_P(AwdParity, DropoutsActInTrainingAloneAndLeaveTheStoredWeightsAlone) {
  worker_->run([&](backend& ops) {
    auto plain = start(ops, 0), dropped = start(ops, -1);
    std::vector<std::vector<float>> before;
    const auto values = [&](const tensor& w) {
      const auto t = ops.to_plain(w);
      return std::vector<float>(t.data<float>(), t.data<float>() + t.elements());
    };
    for (const auto& w : dropped.weights())
      before.push_back(values(w));
    for (const std::size_t step : {0U, 1U, 2U})
      EXPECT_EQ(plain.pass(step, phase::evaluation, nullptr), dropped.pass(step, phase::evaluation, nullptr));
    std::vector<tensor> gradients(dropped.range().parameters().size());
    EXPECT_NE(plain.pass(0, phase::training, nullptr), dropped.pass(0, phase::training, &gradients));
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_EQ(values(dropped.weights()[i]), before[i]) << dropped.range().parameters()[i].name;
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, AwdParity, testing::Values(false, true),
                         [](const auto& test) { return std::string(test.param ? "Reference" : "Cpu"); });

} // namespace
} // namespace penstock
