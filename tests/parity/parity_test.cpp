// Whole narrow networks against PyTorch in float64, from checked-in fixtures: gradients by name, losses, ten SGD steps.
#include "apps/models/registry.hpp"
#include "kernels/initialise.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/segment.hpp"
#include "kernels/stream.hpp"
#include "tests/parity/sketches.hpp"
#include "tests/support/microbatch.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock {
namespace {

using namespace parity;

// As in make_fixtures.py, which explains the fixtures.
constexpr std::int64_t steps = 10;
constexpr std::int64_t batch = 8;

struct parity_case {
  const char* model;
  double width;
  float learning_rate;
  bool reference;              // plain loops instead of the device's library
  float norm_shift = 0;        // more than 0: biases of normalisations are drawn from this +- 1
  std::int64_t image_size = 0; // 0: the model's least
};

/// One network trained on one stream, as a stage would, without actors.
class trainer {
public:
  trainer(std::shared_ptr<const model> network, backend& ops, memory_pool& pool, float learning_rate, float norm_shift)
      : network_(std::move(network)), range_(network_, 0, static_cast<int>(network_->layers().size())), ops_(ops),
        learning_rate_(learning_rate), optimizer_(make_optimizer({.name = "sgd", .momentum = 0.9F})) {
    const auto weights = initial_weights(*network_, seed, pool);
    if (norm_shift > 0) shift_norms(weights, norm_shift);
    if (const auto head = weights.find("heads.head.weight"); head != weights.end()) draw_head(head->second);
    const auto states = initial_states(*network_, pool);
    const auto formats = range_.parameter_formats(ops_);
    for (std::size_t i = 0; i < range_.parameters().size(); ++i)
      weights_.push_back(ops_.reorder(weights.at(range_.parameters()[i].name), formats[i], memory_use::weights));
    for (const auto& state : range_.states())
      states_.push_back(states.at(state.name));
    optimizer_states_.resize(weights_.size());
    gradients_.resize(weights_.size());
  }

  /// The mean loss of the minibatch.
  double step(std::int64_t minibatch, const tensor& input, const tensor& labels) {
    const segment_call call{.seed = seed, .minibatch = minibatch, .info = info_of(batch, batch)};
    segment_activations kept;
    segment_losses losses;
    range_.forward(ops_, call, {input, labels}, weights_, states_, &kept, &losses);
    const double loss = *losses.at(0).sums.data<double>() / batch;
    gradients_.assign(weights_.size(), {});
    range_.backward(ops_, call, {}, weights_, std::move(kept), gradients_, std::move(losses));
    const auto strange =
        ops_.allocate_zeroed(dtype::i32, {static_cast<std::int64_t>(weights_.size())}, memory_use::scratch);
    for (std::size_t i = 0; i < weights_.size(); ++i)
      optimizer_->step(ops_, learning_rate_, 1, true, weights_[i], gradients_[i], optimizer_states_[i], weights_[i],
                       strange, static_cast<std::int64_t>(i));
    return loss;
  }

  named_tensors gradients() const { return named(gradients_); }
  named_tensors weights() const { return named(weights_); }
  named_tensors states() const {
    named_tensors out;
    for (std::size_t i = 0; i < states_.size(); ++i)
      out.emplace(range_.states()[i].name, states_[i]);
    return out;
  }

private:
  static void shift_norms(const named_tensors& weights, float shift) {
    for (const auto& [name, value] : weights) {
      if (!name.ends_with(".bn.bias")) continue;
      const std::span<float> bias(value.data<float>(), static_cast<std::size_t>(value.elements()));
      initialise(bias, {initializer_kind::uniform, 1}, seed, name);
      for (float& b : bias)
        b += shift;
    }
  }

  // A vision transformer's is zero, which nothing passes back in the first step.
  static void draw_head(const tensor& weight) {
    initialise({weight.data<float>(), static_cast<std::size_t>(weight.elements())}, {initializer_kind::normal, 0.02F},
               seed, "heads.head.weight");
  }

  named_tensors named(const std::vector<tensor>& tensors) const {
    named_tensors out;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      out.emplace(range_.parameters()[i].name, ops_.to_plain(tensors[i]));
    return out;
  }

  std::shared_ptr<const model> network_;
  segment range_;
  backend& ops_;
  float learning_rate_;
  std::unique_ptr<optimizer> optimizer_;
  std::vector<tensor> weights_;
  std::vector<tensor> states_;
  std::vector<tensor> gradients_;
  std::vector<optimizer_state> optimizer_states_;
};

class Parity : public testing::TestWithParam<parity_case> {
protected:
  void SetUp() override {
    device_ = open_device({device_kind::cpu, 0});
    fixture_ =
        read_safetensors(std::string(PENSTOCK_PARITY_FIXTURES "/") + GetParam().model + ".safetensors", pool_).tensors;
    apps::model_options options;
    options.image_size = GetParam().image_size;
    if (options.image_size == 0) options.image_size = apps::find_model(GetParam().model).minimum_image_size;
    options.width = GetParam().width;
    options.dropout = 0;
    network_ = std::make_shared<const model>(apps::find_model(GetParam().model).build(options));
  }

  /// Runs ten steps, checking the first step's gradients and every loss on the way, then weights and states.
  void train(backend& ops) {
    trainer run(network_, ops, *device_->host_memory(), GetParam().learning_rate, GetParam().norm_shift);
    auto dims = network_->value(network_->input()).spec.dims;
    dims[0] = batch;
    const auto per_batch = element_count(dims);
    std::vector<float> samples(static_cast<std::size_t>(steps * per_batch));
    initialise(samples, {initializer_kind::normal, 1}, seed, "input");
    const word_stream targets("target");
    for (std::int64_t step = 0; step < steps; ++step) {
      auto input = ops.allocate(dtype::f32, dims, memory_use::scratch);
      std::copy_n(samples.begin() + step * per_batch, per_batch, input.data<float>());
      auto labels = ops.allocate(dtype::i64, {batch}, memory_use::scratch);
      for (std::int64_t i = 0; i < batch; ++i)
        labels.data<std::int64_t>()[i] = static_cast<std::int64_t>(targets[step * batch + i] % 10);
      const auto format = ops.activation_format(dims);
      const double loss = run.step(step, ops.reorder(input, format, memory_use::activations), labels);
      EXPECT_NEAR(loss, fixture_.at("losses").data<float>()[step], 1e-4) << "step " << step + 1;
      if (step == 0) expect_near("gradient:", run.gradients());
    }
    expect_near("final:", run.weights());
    expect_near("final:", run.states());
    expect_whole_model(run.weights());
  }

  void expect_near(const std::string& kind, const named_tensors& found) {
    for (const auto& [name, value] : found) {
      if (value.type() != dtype::f32) continue; // num_batches_tracked
      ASSERT_TRUE(fixture_.contains(kind + name)) << name;
      const auto wanted = read_expectation(fixture_.at(kind + name));
      const double error = std::sqrt(squared_difference(name, value, wanted)) / wanted.norm;
      EXPECT_LE(error, sketch_slack * (3 * wanted.own_error + 1e-5)) << kind << name;
    }
  }

  void expect_whole_model(const named_tensors& weights) {
    double squares = 0;
    double norm = 0;
    for (const auto& [name, value] : weights) {
      const auto wanted = read_expectation(fixture_.at("final:" + name));
      squares += squared_difference(name, value, wanted);
      norm += wanted.norm * wanted.norm;
    }
    EXPECT_LE(std::sqrt(squares / norm), sketch_slack * (3 * fixture_.at("whole_error").data<float>()[0] + 1e-5));
  }

  memory_pool pool_;
  std::shared_ptr<device> device_;
  named_tensors fixture_;
  std::shared_ptr<const model> network_;
};

TEST_P(Parity, GradientsLossesAndTenStepsArePyTorchs) {
  const auto worker = device_->create_stream({.name = "parity", .threads = 1, .reference = GetParam().reference});
  worker->run([&](backend& ops) { train(ops); });
}

TEST_P(Parity, FixtureCoversEveryParameter) {
  for (int layer = 0; layer < static_cast<int>(network_->layers().size()); ++layer) {
    for (const auto& spec : network_->parameters(layer)) {
      EXPECT_TRUE(fixture_.contains("gradient:" + spec.name)) << spec.name;
      EXPECT_TRUE(fixture_.contains("final:" + spec.name)) << spec.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Parity,
    testing::Values(parity_case{"lenet", 1.0, 0.01F, false}, parity_case{"lenet", 1.0, 0.01F, true},
                    parity_case{"resnet18", 0.125, 0.001F, false}, parity_case{"resnet18", 0.125, 0.001F, true},
                    parity_case{"inception_v3", 0.125, 0.0001F, false, 1.5F},
                    parity_case{"inception_v3", 0.125, 0.0001F, true, 1.5F},
                    parity_case{"vit_b_16", 0.1, 0.01F, false, 0, 48},
                    parity_case{"vit_b_16", 0.1, 0.01F, true, 0, 48}),
    [](const auto& test) { return std::string(test.param.model) + (test.param.reference ? "Reference" : "Cpu"); });

} // namespace
} // namespace penstock
