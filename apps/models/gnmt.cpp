// Layer by layer, with the places of dropout of either published program.
#include "apps/models/gnmt.hpp"

#include "apps/models/gnmt_weights.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/losses/token_cross_entropy.hpp"

namespace penstock::apps {

namespace {

constexpr std::int64_t padding = 0; // the token

// What encoder and decoder share. A block, between begin and end, is layers that no cut should part: more would cross
// there than before or behind them.
class side {
public:
  side(model_builder& b, const gnmt_geometry& g) : b_(b), g_(g) {}

  bool is_mlperf() const { return g_.dropout_places == gnmt_form::mlperf; }

  void begin() {
    b_.freeze_unit();
    together_.clear();
  }
  void end() {
    if (together_.size() > 1) b_.keep_together(together_);
  }

  value_id embed(const std::string& name, value_id ids, const parameter_ties& tied = {}) {
    const initializer init =
        g_.initial_values == gnmt_form::mlperf ? tenth : initializer{initializer_kind::normal, 1.0F};
    b_.freeze_unit();
    return b_.add(name, layers::embedding(g_.vocabulary, g_.hidden, {.padding_row = padding, .init = init}), {ids},
                  tied);
  }
  value_id add(const std::string& name, layer_ptr op, std::vector<value_id> inputs) {
    together_.push_back(name);
    return b_.add(name, std::move(op), std::move(inputs));
  }
  value_id drop(const std::string& name, value_id x) {
    return g_.dropout > 0 ? add(name, layers::dropout(g_.dropout), {x}) : x;
  }

  std::optional<initializer> weight_init() const { return drawn(tenth); }
  std::optional<initializer> bias_hh_init() const { return drawn({initializer_kind::constant, 0}); }

protected:
  model_builder& b_;
  const gnmt_geometry& g_;
  std::vector<std::string> together_;

private:
  static constexpr initializer tenth{initializer_kind::uniform, 0.1F};
  // Unset: PyTorch's default.
  std::optional<initializer> drawn(initializer of_mlperf) const {
    return g_.initial_values == gnmt_form::mlperf ? std::optional(of_mlperf) : std::nullopt;
  }
};

class encoder : public side {
public:
  using side::side;

  value_id build(value_id source, value_id lengths) {
    auto x = embed("encoder.embedder", source);
    for (std::int64_t i = 0; i < g_.layers; ++i)
      x = layer(i, x, lengths);
    return x;
  }

private:
  value_id layer(std::int64_t i, value_id x, value_id lengths) {
    const auto name = "encoder.rnn_layers." + std::to_string(i);
    begin();
    const auto before = x;
    if (i > 0 || is_mlperf()) x = drop(name + ".dropout", x);
    if (i == 0)
      x = add(
          name,
          layers::bidirectional_lstm(
              g_.hidden, {.weight_init = weight_init(), .bias_ih_init = weight_init(), .bias_hh_init = bias_hh_init()}),
          {x, lengths});
    else
      x = add(
          name,
          layers::lstm(g_.hidden,
                       {.weight_init = weight_init(), .bias_ih_init = weight_init(), .bias_hh_init = bias_hh_init()}),
          {x});
    if (i > 1) x = add(name + ".residual", layers::add(), {x, before});
    end();
    return x;
  }
};

class decoder : public side {
public:
  decoder(model_builder& b, const gnmt_geometry& g, const gnmt_decoder_options& options)
      : side(b, g), options_(options) {}

  gnmt_decoded build(value_id target, value_id encoded, value_id lengths) {
    auto x = embed_target(target);
    begin();
    if (is_mlperf()) x = drop("decoder.att_rnn.dropout", x);
    x = recur("decoder.att_rnn.rnn", x);
    end();
    b_.freeze_unit();
    const auto context = attend(x, encoded, lengths);
    for (std::int64_t i = 0; i + 1 < g_.layers; ++i)
      x = layer(i, x, context);
    b_.freeze_unit();
    result_.logits = b_.add("decoder.classifier.classifier",
                            layers::linear({.in_features = g_.hidden,
                                            .out_features = g_.vocabulary,
                                            .weight_init = weight_init(),
                                            .bias_init = weight_init()}),
                            {x});
    return result_;
  }

private:
  value_id embed_target(value_id target) {
    if (!g_.tied) return embed("decoder.embedder", target);
    if (options_.alone) return embed("encoder.embedder", target); // where the weights are
    return embed("decoder.embedder", target, {{"weight", "encoder.embedder.weight"}});
  }

  value_id recur(const std::string& name, value_id x) {
    const bool steps = options_.memory != nullptr;
    const auto op = layers::lstm(
        g_.hidden,
        {.state = steps, .weight_init = weight_init(), .bias_ih_init = weight_init(), .bias_hh_init = bias_hh_init()});
    if (!steps) return add(name, op, {x});
    const auto i = result_.memory.h.size();
    together_.push_back(name);
    const auto made = b_.add_multi(name, op, {x, options_.memory->h.at(i), options_.memory->c.at(i)});
    result_.memory.h.push_back(made.at(1));
    result_.memory.c.push_back(made.at(2));
    return made.front();
  }

  value_id attend(value_id query, value_id encoded, value_id lengths) {
    const auto op = layers::additive_attention(g_.hidden, {.keys = options_.keys.has_value(),
                                                           .probabilities = options_.probabilities,
                                                           .weight_init = weight_init(),
                                                           .vector_init = weight_init()});
    std::vector<value_id> inputs{query, encoded, lengths};
    if (options_.keys) inputs.push_back(*options_.keys);
    const auto made = b_.add_multi("decoder.att_rnn.attn", op, inputs);
    if (options_.probabilities) result_.probabilities = made.at(1);
    return made.front();
  }

  value_id layer(std::int64_t i, value_id x, value_id context) {
    const auto name = "decoder.rnn_layers." + std::to_string(i);
    begin();
    const auto before = x;
    if (!is_mlperf()) x = drop(name + ".dropout", x);
    x = add(name + ".concat", layers::concat_features(), {x, context});
    if (is_mlperf()) x = drop(name + ".dropout", x);
    x = recur(name, x);
    if (i > 0) x = add(name + ".residual", layers::add(), {x, before});
    end();
    return x;
  }

  const gnmt_decoder_options& options_;
  gnmt_decoded result_;
};

model build_gnmt(const std::string& name, const model_options& options) {
  const auto g = gnmt_geometry_of(name, gnmt_layers(name), options);
  model_builder b(name);
  const auto source_time = b.extent("source_time", g.source_length);
  const auto target_time = b.extent("target_time", g.target_length);
  const input_options token{.below = g.vocabulary};
  const auto source = b.input("source", dtype::i64, {source_time}, token);
  const auto lengths = b.input("source_lengths", dtype::i64, {}, {.length_of = source_time});
  const auto target_in = b.input("target_in", dtype::i64, {target_time}, token);
  const auto labels = b.input("labels", dtype::i64, {target_time}, token);
  const auto encoded = gnmt_encoder(b, g, source, lengths);
  const auto decoded = gnmt_decoder(b, g, target_in, encoded, lengths);
  b.loss("loss", losses::token_cross_entropy({.ignored = padding}), {decoded.logits, labels}, {.unit = "token"});
  return b.build();
}

model_entry entry_of(const std::string& name, const std::string& summary) {
  model_entry entry{.name = name, .summary = summary, .build = [=](const model_options& options) {
                      return build_gnmt(name, options);
                    }};
  entry.takes_images = false;
  entry.options = {
      {"tied", "", "One table for both languages, and MLPerf's dropout and initial values"},
      {"untied", "", "A table for each language, as PipeDream has it: the default"},
      {"dropout-places", "FORM",
       "pipedream: between LSTMs, or mlperf: before every LSTM [pipedream; with --tied mlperf]"},
      {"initial-values", "FORM", "pipedream: PyTorch's, or mlperf: U(+-0.1) [pipedream; with --tied mlperf]"},
      {"target-length", "N", "Tokens of a translation where data does not say [--length]"}};
  entry.training = {.batch = 64, .optimizer = "adam", .rate = 3e-4F, .label_smoothing = 0.1F}; // PipeDream's run
  entry.adapt_weights = adapt_gnmt_weights;
  return entry;
}

} // namespace

value_id gnmt_encoder(model_builder& b, const gnmt_geometry& g, value_id source, value_id lengths) {
  return encoder(b, g).build(source, lengths);
}

gnmt_decoded gnmt_decoder(model_builder& b, const gnmt_geometry& g, value_id target, value_id encoded, value_id lengths,
                          const gnmt_decoder_options& options) {
  return decoder(b, g, options).build(target, encoded, lengths);
}

model_entry gnmt8_entry() {
  return entry_of("gnmt8", "GNMT with four LSTM layers on each side");
}

model_entry gnmt16_entry() {
  return entry_of("gnmt16", "GNMT with eight LSTM layers on each side");
}

model_entry gnmt_large_entry() {
  auto entry = entry_of("gnmt_large", "GNMT with --layers on each side, 16 unless given");
  entry.options.insert(entry.options.begin(), {"layers", "N", "LSTM layers on each side [16]"});
  return entry;
}

} // namespace penstock::apps
