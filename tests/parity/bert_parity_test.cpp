// A narrow BERT with each of its heads against transformers in float64, two micro-batches of uneven counts a minibatch:
// gradients by name, losses, ten AdamW steps.
#include "apps/models/registry.hpp"
#include "tests/parity/sequence_parity.hpp"

namespace penstock {
namespace {

using namespace parity;

// As in make_bert_fixtures.py.
constexpr std::int64_t steps = 10, batch = 6, length = 9, predictions = 4, classes = 3;

struct bert_case {
  const char* head;
  bool reference; // plain loops instead of the device's library
};

columns draw_data(std::int64_t vocabulary) {
  constexpr std::int64_t n = steps * batch;
  columns data{{"lengths", whole("lengths", n, {length - 2}, 3)},
               {"input_ids", whole("input_ids", n * length, {vocabulary - 1}, 1)},
               {"token_type_ids", whole("token_type_ids", n * length, {2})},
               {"labels", whole("labels", n, {classes})},
               {"start_positions", whole("start_positions", n, {length})},
               {"end_positions", whole("end_positions", n, {length})},
               {"masked_positions", whole("masked_positions", n * predictions, {3})},
               {"masked_labels", whole("masked_labels", n * predictions, {vocabulary})},
               {"next_sentence_label", whole("next_sentence_label", n, {2})}};
  pad(data["input_ids"], data["lengths"], length, 0);
  pad(data["token_type_ids"], data["lengths"], length, 0);
  const auto counts = whole("masked_counts", n, {predictions + 1});
  pad(data["masked_positions"], counts, predictions, 0);
  pad(data["masked_labels"], counts, predictions, -100);
  return data;
}

class BertParity : public testing::TestWithParam<bert_case> {};

TEST_P(BertParity, GradientsLossesAndTenStepsAreTransformers) {
  const std::string folder = PENSTOCK_PARITY_FIXTURES "/";
  apps::model_options options;
  options.classes = classes;
  options.length = length;
  options.own = {{"hf-config", folder + "bert.json"}, {"head", GetParam().head}};
  const auto data = draw_data(50);
  recipe how{.steps = steps, .batch = batch};
  how.optimizer = {.name = "adamw", .weight_decay = 0.01F, .epsilon = 1e-6F, .bias_correction = false};
  how.facts = [&masked = data.at("masked_labels")](std::int64_t step) {
    const auto begin = masked.begin() + step * batch * predictions;
    const auto counted = std::count_if(begin, begin + batch * predictions, [](auto label) { return label >= 0; });
    return microbatch_info{.counts = {batch, static_cast<double>(counted)}, .extents = {length, predictions}};
  };
  // A key's bias moves all scores of a query alike: its gradient is 0 but for rounding.
  how.measure = [](const std::string& name, double norm) { return name.ends_with("self.key.bias") ? 1e-2 : norm; };
  const auto network = std::make_shared<const model>(apps::find_model("bert").build(options));
  sequence_parity(network, data, folder + "bert_" + GetParam().head + ".safetensors", how).train(GetParam().reference);
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
