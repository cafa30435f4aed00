// AWD-LSTM (Merity, Keskar and Socher, arXiv:1708.02182): names, initial values and the order of dropouts are those of
// its published program, the rates those of its recipe for the Penn Treebank.
#include "apps/models/awd_lm.hpp"

#include "apps/models/own_options.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/losses/activation_penalty.hpp"
#include "kernels/losses/token_cross_entropy.hpp"
#include "kernels/model_builder.hpp"

namespace penstock::apps {

namespace {

constexpr std::int64_t most_layers = 64;
constexpr initializer table_init{initializer_kind::uniform, 0.1F};

struct awd_geometry {
  std::int64_t vocabulary = 10'000;
  std::int64_t embedding = 400;
  std::int64_t hidden = 1150;
  std::int64_t layers = 3;
  std::int64_t length = 70;
  bool tied = true;
  // Of rows of the table, of what is read from it, of hidden weights, between LSTMs, behind the last one.
  float row_dropout = 0.1F, input_dropout = 0.4F, weight_drop = 0.5F, hidden_dropout = 0.25F, output_dropout = 0.4F;
  float activation_penalty = 2, step_penalty = 1; ///< the published alpha and beta
};

awd_geometry geometry_of(const model_options& options) {
  check_width_and_dropout("awd_lm", options);
  awd_geometry g;
  if (options.vocabulary > 0) g.vocabulary = options.vocabulary;
  if (options.length > 0) g.length = options.length;
  g.embedding = scaled(g.embedding, options.width);
  g.hidden = scaled(g.hidden, options.width);
  g.layers = own_whole(options, "layers", g.layers, 1, most_layers);
  g.tied = !own_switch(options, "untied");
  for (const auto& [name, rate] : {std::pair("dropoute", &g.row_dropout), std::pair("dropouti", &g.input_dropout),
                                   std::pair("wdrop", &g.weight_drop), std::pair("dropouth", &g.hidden_dropout),
                                   std::pair("dropouto", &g.output_dropout)}) {
    const double usual = options.dropout >= 0 ? options.dropout : static_cast<double>(*rate);
    *rate = static_cast<float>(own_real(options, name, usual, 1, upper_end::excluded));
  }
  constexpr double most_penalty = 1e6;
  g.activation_penalty = static_cast<float>(own_real(options, "alpha", g.activation_penalty, most_penalty));
  g.step_penalty = static_cast<float>(own_real(options, "beta", g.step_penalty, most_penalty));
  return g;
}

class awd_builder {
public:
  explicit awd_builder(const awd_geometry& g) : g_(g), b_("awd_lm"), time_(b_.extent("time", g.length)) {}

  model build() {
    const auto input = b_.input("input", dtype::i64, {time_}, {.below = g_.vocabulary});
    const auto labels = b_.input("labels", dtype::i64, {time_}, {.below = g_.vocabulary});
    b_.freeze_unit();
    last_ = b_.add("encoder",
                   layers::embedding(g_.vocabulary, g_.embedding, {.init = table_init, .row_dropout = g_.row_dropout}),
                   {input});
    drop("lockdrop.input", g_.input_dropout);
    for (std::int64_t l = 0; l < g_.layers; ++l)
      add_lstm(l);
    const auto logits = add_decoder();
    b_.loss("loss", losses::token_cross_entropy(), {logits, labels}, {.counted_by = "tokens"});
    penalise("ar", penalty::activation, last_, g_.activation_penalty);
    penalise("tar", penalty::step, undropped_, g_.step_penalty);
    return b_.build();
  }

private:
  // A layer that drops nothing would still be called.
  void drop(const std::string& name, float rate) {
    if (rate > 0) last_ = b_.add(name, layers::locked_dropout(rate), {last_});
  }

  void add_lstm(std::int64_t l) {
    const bool is_last = l + 1 == g_.layers;
    const auto number = std::to_string(l);
    b_.freeze_unit();
    last_ = b_.add(
        "rnns." + number + ".module",
        layers::lstm(is_last ? g_.embedding : g_.hidden,
                     {.names = {.weight_hh = "weight_hh_l0_raw"}, .carried = true, .weight_drop = g_.weight_drop}),
        {last_});
    undropped_ = last_;
    drop("lockdrop." + number, is_last ? g_.output_dropout : g_.hidden_dropout);
  }

  value_id add_decoder() {
    b_.freeze_unit();
    parameter_ties tied;
    if (g_.tied) tied["weight"] = "encoder.weight";
    return b_.add("decoder",
                  layers::linear({.in_features = g_.embedding,
                                  .out_features = g_.vocabulary,
                                  .weight_init = table_init,
                                  .bias_init = initializer{initializer_kind::constant, 0}}),
                  {last_}, tied);
  }

  void penalise(const std::string& name, penalty kind, value_id activations, float weight) {
    if (weight > 0)
      b_.loss(name, losses::activation_penalty(kind), {activations}, {.weight = weight, .training_only = true});
  }

  awd_geometry g_;
  model_builder b_;
  extent_id time_{};
  value_id last_{}, undropped_{};
};

bool is_masked_copy(const std::string& name, const safetensors_contents& file) {
  return name.ends_with(".weight_hh_l0") && file.tensors.contains(name + "_raw");
}

// The published program's modules may hold the hidden weights a second time, masked; and a file of a tied model may
// have one table.
adapted_weights adapt_weights(const model& net, safetensors_contents& file) {
  for (auto it = file.tensors.begin(); it != file.tensors.end();)
    it = is_masked_copy(it->first, file) ? file.tensors.erase(it) : std::next(it);
  const bool has_two_tables = !net.aliases().contains("decoder.weight");
  if (has_two_tables && file.tensors.contains("encoder.weight"))
    file.tensors.emplace("decoder.weight", file.tensors.at("encoder.weight"));
  return {};
}

} // namespace

model_entry awd_lm_entry() {
  model_entry entry{.name = "awd_lm",
                    .summary = "AWD LSTM, a language model",
                    .build = [](const model_options& options) { return awd_builder(geometry_of(options)).build(); }};
  entry.takes_images = false;
  entry.options = {{"layers", "N", "LSTMs; the last one returns to the embedding's size [3]"},
                   {"untied", "", "A decoder with a table of its own, for stages that update apart"},
                   {"dropoute", "X", "Of whole words of the table [0.1, or --dropout]"},
                   {"dropouti", "X", "Of what the first LSTM reads, alike in all steps [0.4, or --dropout]"},
                   {"wdrop", "X", "Of hidden-to-hidden weights, one mask a minibatch [0.5, or --dropout]"},
                   {"dropouth", "X", "Between LSTMs, alike in all steps [0.25, or --dropout]"},
                   {"dropouto", "X", "Behind the last LSTM, alike in all steps [0.4, or --dropout]"},
                   {"alpha", "X", "Of the mean square of the last LSTM's dropped output, in the loss [2]"},
                   {"beta", "X", "Of the mean square of its steps, undropped [1]"}};
  entry.adapt_weights = adapt_weights;
  entry.training = {.batch = 20, .rate = 30, .momentum = 0, .weight_decay = 1.2e-6F, .clip_norm = 0.25};
  return entry;
}

} // namespace penstock::apps
