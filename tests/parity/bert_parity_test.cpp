// A narrow BERT with each of its heads against transformers in float64, two micro-batches of uneven counts a minibatch:
// gradients by name, losses, ten AdamW steps.
#include "apps/models/registry.hpp"
#include "kernels/initialise.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/segment.hpp"
#include "kernels/stream.hpp"
#include "tests/parity/sketches.hpp"
#include "tests/support/microbatch.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock {
namespace {

using namespace parity;

// As in make_bert_fixtures.py.
constexpr std::int64_t steps = 10, batch = 6, microbatches = 2, length = 9, predictions = 4, classes = 3;

struct bert_case {
  const char* head;
  bool reference; // plain loops instead of the device's library
};

using columns = std::map<std::string, std::vector<std::int64_t>>; // of all samples, row-major

std::vector<std::int64_t> whole(const char* name, std::int64_t count, std::int64_t below, std::int64_t first = 0) {
  const word_stream words(name);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(first + static_cast<std::int64_t>(words[i] % static_cast<std::uint64_t>(below)));
  return out;
}

// Sets what lies behind the first `inside` of a row.
void pad(std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& inside, std::int64_t row, std::int64_t by) {
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(rows.size()); ++i)
    if (i % row >= inside[static_cast<std::size_t>(i / row)]) rows[static_cast<std::size_t>(i)] = by;
}

columns draw_data(std::int64_t vocabulary) {
  constexpr std::int64_t n = steps * batch;
  columns data{{"lengths", whole("lengths", n, length - 2, 3)},
               {"input_ids", whole("input_ids", n * length, vocabulary - 1, 1)},
               {"token_type_ids", whole("token_type_ids", n * length, 2)},
               {"labels", whole("labels", n, classes)},
               {"start_positions", whole("start_positions", n, length)},
               {"end_positions", whole("end_positions", n, length)},
               {"masked_positions", whole("masked_positions", n * predictions, 3)},
               {"masked_labels", whole("masked_labels", n * predictions, vocabulary)},
               {"next_sentence_label", whole("next_sentence_label", n, 2)}};
  pad(data["input_ids"], data["lengths"], length, 0);
  pad(data["token_type_ids"], data["lengths"], length, 0);
  const auto counts = whole("masked_counts", n, predictions + 1);
  pad(data["masked_positions"], counts, predictions, 0);
  pad(data["masked_labels"], counts, predictions, -100);
  return data;
}

class BertParity : public testing::TestWithParam<bert_case> {
protected:
  void SetUp() override {
    device_ = open_device({device_kind::cpu, 0});
    const std::string folder = PENSTOCK_PARITY_FIXTURES "/";
    fixture_ = read_safetensors(folder + "bert_" + GetParam().head + ".safetensors", pool_).tensors;
    apps::model_options options;
    options.classes = classes;
    options.length = length;
    options.own = {{"hf-config", folder + "bert.json"}, {"head", GetParam().head}};
    network_ = std::make_shared<const model>(apps::find_model("bert").build(options));
    data_ = draw_data(50);
  }

  tensor rows_of(backend& ops, const std::string& name, std::int64_t first, std::int64_t count) {
    const auto& all = data_.at(name);
    const auto row = static_cast<std::int64_t>(all.size()) / (steps * batch);
    shape dims{count};
    if (row > 1) dims.push_back(row);
    auto t = ops.allocate(dtype::i64, dims, memory_use::scratch);
    std::copy_n(all.begin() + first * row, count * row, t.data<std::int64_t>());
    return t;
  }

  microbatch_info info_of_minibatch(std::int64_t step) {
    microbatch_info info{.samples = batch / microbatches, .counts = {batch}, .extents = {length, predictions}};
    const auto begin = data_.at("masked_labels").begin() + step * batch * predictions;
    if (network_->counts().size() > 1)
      info.counts[1] =
          static_cast<double>(std::count_if(begin, begin + batch * predictions, [](auto label) { return label >= 0; }));
    return info;
  }

  // Adds the minibatch's gradients; its loss.
  double pass(backend& ops, const segment& range, std::int64_t step, const std::vector<tensor>& weights,
              std::vector<tensor>& gradients) {
    const auto info = info_of_minibatch(step);
    double loss = 0;
    for (std::int64_t m = 0; m < microbatches; ++m) {
      const segment_call call{
          .seed = seed, .minibatch = step, .microbatch = static_cast<std::int32_t>(m), .info = info};
      std::vector<tensor> inputs;
      for (const auto id : range.fed())
        inputs.push_back(rows_of(ops, network_->value(id).name, step * batch + m * info.samples, info.samples));
      segment_activations kept;
      segment_losses losses;
      range.forward(ops, call, inputs, weights, {}, &kept, &losses);
      for (std::size_t l = 0; l < losses.size(); ++l) {
        const auto& how = network_->losses()[l];
        loss += static_cast<double>(how.options.weight) * *losses[l].sums.data<double>() / info.counts.at(how.count);
      }
      range.backward(ops, call, {}, weights, std::move(kept), gradients, std::move(losses));
    }
    for (std::size_t i = gradients.size(); i-- > 0;) // two uses of one tensor at most
      if (range.is_repeat(i))
        ops.get<elementwise_ops>().accumulate(gradients[range.parameters()[i].first_use], gradients[i]);
    return loss;
  }

  void train(backend& ops) {
    const segment range(network_, 0, static_cast<int>(network_->layers().size()));
    const auto rule =
        make_optimizer({.name = "adamw", .weight_decay = 0.01F, .epsilon = 1e-6F, .bias_correction = false});
    const auto drawn = initial_weights(*network_, seed, *device_->host_memory());
    const auto formats = range.parameter_formats(ops);
    const auto& parameters = range.parameters();
    std::vector<tensor> weights;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      weights.push_back(range.is_repeat(i)
                            ? weights[parameters[i].first_use]
                            : ops.reorder(drawn.at(parameters[i].name), formats[i], memory_use::weights));
    std::vector<optimizer_state> states(weights.size());
    for (std::int64_t step = 0; step < steps; ++step) {
      std::vector<tensor> gradients(weights.size());
      const double loss = pass(ops, range, step, weights, gradients);
      EXPECT_NEAR(loss, fixture_.at("losses").data<float>()[step], 1e-5) << "step " << step + 1;
      if (step == 0) expect_near(ops, "gradient:", parameters, gradients);
      const auto strange =
          ops.allocate_zeroed(dtype::i32, {static_cast<std::int64_t>(weights.size())}, memory_use::scratch);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        if (range.is_repeat(i)) continue; // it is stepped in place with the first use
        rule->step(ops, 1e-3F, 1, !parameters[i].spec.norm_or_bias, weights[i], gradients[i], states[i], weights[i],
                   strange, static_cast<std::int64_t>(i));
      }
    }
    expect_near(ops, "final:", parameters, weights);
  }

  void expect_near(backend& ops, const std::string& kind, const std::vector<segment_parameter>& parameters,
                   const std::vector<tensor>& found) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (parameters[i].first_use != i) continue;
      const auto& name = parameters[i].name;
      ASSERT_TRUE(fixture_.contains(kind + name)) << name;
      const auto wanted = read_expectation(fixture_.at(kind + name));
      const double error = std::sqrt(squared_difference(name, ops.to_plain(found[i]), wanted));
      // A key's bias moves all scores of a query alike: its gradient is 0 but for rounding.
      const double norm = name.ends_with("self.key.bias") ? 1e-2 : wanted.norm;
      EXPECT_LE(error, sketch_slack * (3 * wanted.own_error * wanted.norm + 1e-5 * norm)) << kind << name;
    }
  }

  memory_pool pool_;
  std::shared_ptr<device> device_;
  named_tensors fixture_;
  std::shared_ptr<const model> network_;
  columns data_;
};

TEST_P(BertParity, GradientsLossesAndTenStepsAreTransformers) {
  const auto worker = device_->create_stream({.name = "parity", .threads = 1, .reference = GetParam().reference});
  worker->run([&](backend& ops) { train(ops); });
}

INSTANTIATE_TEST_SUITE_P(Heads, BertParity,
                         testing::Values(bert_case{"classification", false}, bert_case{"classification", true},
                                         bert_case{"span", false}, bert_case{"span", true},
                                         bert_case{"pretraining", false}, bert_case{"pretraining", true}),
                         [](const auto& test) {
                           return std::string(test.param.head) + (test.param.reference ? "Reference" : "Cpu");
                         });

} // namespace
} // namespace penstock
