// A network cut into stages that a test chains by hand, and all that a training step of it leaves, bit for bit.
#pragma once

#include "kernels/initialise.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/segment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace penstock::testing {

using floats = std::vector<float>;

// Everything a training step leaves, plain: outputs, gradients by parameter name, states, the input's gradients.
struct step_result {
  std::map<std::string, floats> values;
};

inline void expect_same_bits(const step_result& found, const step_result& wanted, const std::string& where) {
  ASSERT_EQ(found.values.size(), wanted.values.size()) << where;
  for (const auto& [name, w] : wanted.values) {
    const auto& f = found.values.at(name);
    ASSERT_EQ(f.size(), w.size()) << where << ": " << name;
    ASSERT_EQ(std::memcmp(f.data(), w.data(), w.size() * sizeof(float)), 0) << where << ": " << name;
  }
}

inline floats plain_values(backend& ops, const tensor& t) {
  if (!t) return {};
  const auto plain = ops.to_plain(t);
  if (t.type() == dtype::i64) return floats(plain.data<std::int64_t>(), plain.data<std::int64_t>() + plain.elements());
  return floats(plain.data<float>(), plain.data<float>() + plain.elements());
}

inline tensor random_activation(backend& ops, shape dims, unsigned seed) {
  std::mt19937 random(seed);
  auto t = ops.allocate(dtype::f32, dims, memory_use::activations);
  std::uniform_real_distribution<float> value(-1, 1);
  for (std::int64_t i = 0; i < t.elements(); ++i)
    t.data<float>()[i] = value(random);
  return dims.size() == 4 ? ops.reorder(t, ops.activation_format(dims), memory_use::activations) : t;
}

inline std::vector<tensor> drawn_weights(backend& ops, const segment& s) {
  std::vector<tensor> weights;
  const auto formats = s.parameter_formats(ops);
  for (std::size_t i = 0; i < formats.size(); ++i) {
    const auto& p = s.parameters()[i];
    weights.push_back(initial_parameter(ops, p.spec, p.name, formats[i], 9));
  }
  return weights;
}

// Runs micro-batches of one minibatch through the model cut at `cuts` (first layers of the stages after the first),
// all forwards before all backwards, and chains the stages by hand as messages would.
class chained {
public:
  chained(std::shared_ptr<const model> m, std::vector<int> cuts) : model_(std::move(m)) {
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(static_cast<int>(model_->layers().size()));
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
      stages_.emplace_back(model_, cuts[i], cuts[i + 1]);
  }

  /// With `delay`, every backward is split: the weights' part of a micro-batch follows the input's part of the
  /// micro-batch that many later.
  step_result train(backend& ops, std::int64_t batch, int microbatches, std::optional<int> delay = {}) {
    start(ops);
    std::vector<std::vector<segment_weight_work>> work(static_cast<std::size_t>(microbatches));
    const auto weigh = [&](int m) {
      for (std::size_t s = stages_.size(); s-- > 0;)
        stages_[s].backward_weight(ops, call(m), weights_[s], std::move(work[static_cast<std::size_t>(m)][s]),
                                   gradients_[s]);
    };
    step_result result;
    std::vector<std::vector<segment_activations>> kept(static_cast<std::size_t>(microbatches));
    for (int m = 0; m < microbatches; ++m) {
      auto dims = model_->value(model_->input()).spec.dims;
      dims[0] = batch;
      const auto image = random_activation(ops, dims, static_cast<unsigned>(m));
      std::vector<tensor> flow;
      auto& activations = kept[static_cast<std::size_t>(m)];
      activations.resize(stages_.size());
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        flow.insert(flow.end(), stages_[s].fed().size(), image);
        flow = stages_[s].forward(ops, call(m), std::move(flow), weights_[s], states_[s], &activations[s]);
      }
      result.values["output " + std::to_string(m)] = plain_values(ops, flow.at(0));
    }
    for (int m = 0; m < microbatches; ++m) {
      std::vector<tensor> flow{random_activation(ops, {batch, model_->classes()}, 100 + static_cast<unsigned>(m))};
      work[static_cast<std::size_t>(m)].resize(stages_.size());
      for (std::size_t s = stages_.size(); s-- > 0;) {
        auto& activations = kept[static_cast<std::size_t>(m)][s];
        if (delay)
          flow = stages_[s].backward_input(ops, call(m), std::move(flow), weights_[s], std::move(activations),
                                           work[static_cast<std::size_t>(m)][s]);
        else
          flow = stages_[s].backward(ops, call(m), std::move(flow), weights_[s], std::move(activations), gradients_[s]);
        EXPECT_EQ(flow.size(), stages_[s].inputs().size());
      }
      EXPECT_TRUE(flow.empty()) << "nobody wants the image's gradient";
      if (delay && m >= *delay) weigh(m - *delay);
    }
    if (delay)
      for (int m = std::max(0, microbatches - *delay); m < microbatches; ++m)
        weigh(m);
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      for (std::size_t i = 0; i < gradients_[s].size(); ++i)
        result.values["gradient " + stages_[s].parameters()[i].name] = plain_values(ops, gradients_[s][i]);
      for (std::size_t i = 0; i < states_[s].size(); ++i)
        result.values["state " + stages_[s].states()[i].name] = plain_values(ops, states_[s][i]);
    }
    return result;
  }

private:
  static segment_call call(int microbatch) { return {.seed = 5, .minibatch = 3, .microbatch = microbatch}; }

  void start(backend& ops) {
    weights_.assign(stages_.size(), {});
    states_.assign(stages_.size(), {});
    gradients_.assign(stages_.size(), {});
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      weights_[s] = drawn_weights(ops, stages_[s]);
      gradients_[s].resize(weights_[s].size());
      for (const auto& st : stages_[s].states()) {
        auto t = ops.allocate(st.spec.type, st.spec.dims, memory_use::optimizer_state);
        if (t.type() == dtype::i64)
          std::fill_n(t.data<std::int64_t>(), t.elements(), 0);
        else
          std::fill_n(t.data<float>(), t.elements(), st.spec.initial);
        states_[s].push_back(t);
      }
    }
  }

  std::shared_ptr<const model> model_;
  std::vector<segment> stages_;
  std::vector<std::vector<tensor>> weights_;
  std::vector<std::vector<tensor>> states_;
  std::vector<std::vector<tensor>> gradients_;
};

// conv and BatchNorm with ReLU to fuse, a value with four readers far apart, one that is added to itself, dropout.
inline std::shared_ptr<const model> residual_network() {
  using namespace layers;
  const auto conv = [](std::int64_t in, std::int64_t out) {
    return conv2d({.in_channels = in, .out_channels = out, .kernel = {3, 3}, .args = {.padding = {1, 1}}});
  };
  model_builder b("residual", {3, 6, 6});
  const auto c1 = b.add("conv1", conv(3, 5), {b.input()});
  const auto skip = b.add("relu1", relu(), {c1});
  auto x = b.add("conv2", conv(5, 5), {skip});
  x = b.add("bn2", batch_norm2d(5), {x});
  x = b.add("relu2", relu(), {x});
  x = b.add("add1", layers::add(), {x, skip});
  const auto twice = b.add("twice", layers::add(), {x, x});
  x = b.add("add2", layers::add(), {skip, twice});
  x = b.add("relu3", relu(), {x});
  x = b.add("cat", concat(), {x, skip});
  x = b.add("pool", pool2d({}), {x});
  x = b.add("flatten", flatten(), {x});
  x = b.add("drop", dropout(0.5F), {x});
  x = b.add("fc1", linear({.in_features = 90, .out_features = 7}), {x});
  const auto h = b.add("relu4", relu(), {x});
  x = b.add("fc2", linear({.in_features = 7, .out_features = 7}), {h});
  x = b.add("add3", layers::add(), {x, h});
  return std::make_shared<const model>(
      b.build_inference(b.add("fc3", linear({.in_features = 7, .out_features = 4}), {x})));
}

} // namespace penstock::testing
