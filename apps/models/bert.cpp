// BERT (Devlin et al., arXiv:1810.04805): names, epsilon and the places of dropout are Hugging Face's.
#include "apps/models/bert.hpp"

#include "apps/models/bert_geometry.hpp"
#include "apps/models/bert_weights.hpp"
#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/losses/cross_entropy.hpp"
#include "kernels/losses/token_cross_entropy.hpp"
#include "kernels/model_builder.hpp"
#include "kernels/text.hpp"

namespace penstock::apps {

namespace {

constexpr std::int64_t usual_length = 128;
constexpr initializer zeros{initializer_kind::constant, 0};

class bert_builder {
public:
  bert_builder(const model_options& options, std::string head)
      : g_(bert_geometry_of(options)), head_(std::move(head)), is_untied_(options.own.contains("untied")), b_("bert"),
        length_(options.length > 0 ? options.length : std::min(usual_length, g_.positions)) {
    if (length_ > g_.positions)
      throw usage_error("--length: found " + std::to_string(length_) + ", wanted at most the " +
                        std::to_string(g_.positions) + " positions of bert");
    time_ = b_.extent("time", length_, g_.positions);
  }

  model build(std::int64_t classes) {
    const auto ids = b_.input("input_ids", dtype::i64, {time_}, {.below = g_.vocabulary});
    const auto types = b_.input("token_type_ids", dtype::i64, {time_}, {.below = g_.types});
    lengths_ = b_.input("lengths", dtype::i64, {}, {.length_of = time_});
    add_embeddings(ids, types);
    for (std::int64_t i = 0; i < g_.layers; ++i)
      add_layer("bert.encoder.layer." + std::to_string(i));
    b_.freeze_unit();
    if (head_ == "classification") add_classifier(classes);
    if (head_ == "span") add_spans();
    if (head_ == "pretraining") add_pretraining();
    if (head_ == "embed") add_mean();
    return b_.build();
  }

private:
  initializer drawn() const { return {initializer_kind::normal, g_.deviation}; }

  value_id add(const std::string& name, layer_ptr op, std::vector<value_id> inputs, const parameter_ties& tied = {}) {
    return last_ = b_.add(name, std::move(op), std::move(inputs), tied);
  }
  value_id dense(const std::string& name, value_id x, std::int64_t out) {
    return add(
        name,
        layers::linear(
            {.in_features = b_.spec(x).dims.back(), .out_features = out, .weight_init = drawn(), .bias_init = zeros}),
        {x});
  }
  value_id norm(const std::string& name) {
    return add(name, layers::layer_norm({.normalized = {g_.hidden}, .epsilon = g_.epsilon}), {last_});
  }
  // A layer that would drop nothing would still keep a product from computing what comes behind it.
  value_id drop(const std::string& name, float rate) {
    return rate > 0 ? add(name, layers::dropout(rate), {last_}) : last_;
  }

  void add_embeddings(value_id ids, value_id types) {
    const std::string name = "bert.embeddings.";
    b_.freeze_unit();
    const auto words =
        add(name + "word_embeddings",
            layers::embedding(g_.vocabulary, g_.hidden, {.padding_row = g_.padding_row, .init = drawn()}), {ids});
    const auto kinds =
        add(name + "token_type_embeddings", layers::embedding(g_.types, g_.hidden, {.init = drawn()}), {types});
    add(name + "add", layers::add(), {words, kinds});
    add(name + "position_embeddings", layers::positions(g_.positions, g_.hidden, {.init = drawn()}), {last_});
    norm(name + "LayerNorm");
    drop(name + "dropout", g_.hidden_dropout);
  }

  void add_layer(const std::string& name) {
    b_.freeze_unit();
    auto trunk = last_;
    const auto self = name + ".attention.self", out = name + ".attention.output";
    std::vector<value_id> read;
    std::vector<std::string> together;
    for (const char* part : {".query", ".key", ".value"}) {
      read.push_back(dense(self + part, trunk, g_.hidden));
      together.push_back(self + part);
    }
    read.push_back(lengths_);
    add(self + ".attend", layers::attention(g_.heads, {.dropout = g_.attention_dropout}), read);
    end_half(out, trunk, together, {self + ".attend"});
    trunk = last_;
    dense(name + ".intermediate.dense", trunk, g_.inner);
    add(name + ".intermediate.gelu", layers::gelu(g_.gelu), {last_});
    end_half(name + ".output", trunk, {name + ".intermediate.dense", name + ".intermediate.gelu"}, {});
  }

  // The product, the residual and its normalisation, which no cut should part from what is before them.
  void end_half(const std::string& name, value_id trunk, std::vector<std::string> together,
                const std::vector<std::string>& more) {
    dense(name + ".dense", last_, g_.hidden);
    drop(name + ".dropout", g_.hidden_dropout);
    add(name + ".add", layers::add(), {last_, trunk});
    norm(name + ".LayerNorm");
    together.insert(together.end(), more.begin(), more.end());
    together.insert(together.end(), {name + ".dense", name + ".add", name + ".LayerNorm"});
    b_.keep_together(std::move(together));
  }

  value_id add_pooler() {
    add("bert.pooler.first_token", layers::select_token(0), {last_});
    dense("bert.pooler.dense", last_, g_.hidden);
    return add("bert.pooler.activation", layers::tanh(), {last_});
  }

  void add_classifier(std::int64_t classes) {
    if (classes < 1 || classes > most_classes)
      throw usage_error("bert: number of classes " + std::to_string(classes) + " is not in 1 to " +
                        std::to_string(most_classes));
    add_pooler();
    drop("dropout", g_.head_dropout);
    const auto logits = dense("classifier", last_, classes);
    const auto labels = b_.input("labels", dtype::i64, {}, {.below = classes});
    b_.loss("loss", losses::cross_entropy(), {logits, labels});
    b_.result(logits); // for measures of an evaluation as a whole
  }

  void add_spans() {
    const auto logits = dense("qa_outputs", last_, 2);
    const auto both = b_.add_multi("qa_outputs.split", layers::split_features({1, 1}), {logits});
    for (const auto& [name, x] : {std::pair("start", both.at(0)), std::pair("end", both.at(1))}) {
      const auto of_tokens = add("qa_outputs." + std::string(name), layers::flatten(), {x});
      const auto at = b_.input(std::string(name) + "_positions", dtype::i64, {});
      b_.loss(name, losses::token_cross_entropy({.ignores_beyond = true}), {of_tokens, at}, {.weight = 0.5F});
      b_.result(of_tokens);
    }
  }

  void add_pretraining() {
    const auto encoded = last_;
    // 15% of the tokens: 20 of 128, 77 of 512.
    const auto predictions = b_.extent("predictions", std::max<std::int64_t>(1, (15 * length_ + 99) / 100));
    const auto positions = b_.input("masked_positions", dtype::i64, {predictions});
    const auto masked = b_.input("masked_labels", dtype::i64, {predictions}, {.below = g_.vocabulary});
    const auto next = b_.input("next_sentence_label", dtype::i64, {}, {.below = 2});
    const std::string name = "cls.predictions";
    add(name + ".gather", layers::gather_rows(), {encoded, positions});
    dense(name + ".transform.dense", last_, g_.hidden);
    add(name + ".transform.gelu", layers::gelu(g_.gelu), {last_});
    norm(name + ".transform.LayerNorm");
    parameter_ties tied;
    if (!is_untied_) tied["decoder.weight"] = "bert.embeddings.word_embeddings.weight";
    const auto words = add(name,
                           layers::linear({.in_features = g_.hidden,
                                           .out_features = g_.vocabulary,
                                           .weight_init = drawn(),
                                           .bias_init = zeros,
                                           .weight_name = "decoder.weight",
                                           .bias_name = "bias"}),
                           {last_}, tied);
    b_.also_named(name + ".decoder.bias", name + ".bias");
    last_ = encoded;
    const auto pooled = add_pooler();
    const auto sentences = dense("cls.seq_relationship", pooled, 2);
    b_.loss("masked", losses::token_cross_entropy(), {words, masked}, {.counted_by = "masked"});
    b_.loss("next", losses::cross_entropy(), {sentences, next});
  }

  // Scores that are all equal: the attention of one query is the mean of the values that it sees.
  void add_mean() {
    const auto encoded = last_;
    const auto query = add("mean.query", layers::slice(1, 0, 1), {encoded});
    add("mean", layers::attention(1, {.scale = 0.0F}), {query, encoded, encoded, lengths_});
    b_.result(add("embedding", layers::flatten(), {last_}));
  }

  bert_geometry g_;
  std::string head_;
  bool is_untied_;
  model_builder b_;
  std::int64_t length_;
  extent_id time_{};
  value_id lengths_{};
  value_id last_{};
};

model build_bert(const model_options& options) {
  const auto given = options.own.find("head");
  const auto head = given == options.own.end() ? "classification" : given->second;
  const std::vector<std::string> heads{"classification", "span", "pretraining", "embed"};
  if (std::find(heads.begin(), heads.end(), head) == heads.end())
    throw usage_error("--head: found " + in_quotes(head) + did_you_mean(head, heads) + ", wanted " + join(heads, ", "));
  if (options.own.contains("untied") && head != "pretraining")
    throw usage_error("--untied: --head " + head + " ties nothing, wanted it beside --head pretraining");
  return bert_builder(options, head).build(options.classes);
}

} // namespace

model_entry bert_entry() {
  model_entry entry{.name = "bert", .summary = "BERT, base or large, with one of its heads", .build = build_bert};
  entry.takes_images = false;
  entry.options = {{"size", "NAME", "base or large [base]"},
                   {"hf-config", "FILE", "Any geometry: a Hugging Face config.json"},
                   {"head", "NAME",
                    "classification, span, pretraining (masked words and next sentence) or embed, for bert --embed "
                    "[classification]"},
                   {"untied", "",
                    "The pretraining head's word table is its own, not the embeddings': for schedules whose stages "
                    "update apart"},
                   {"gelu", "FORM", "erf, Hugging Face's, or tanh, Google's [erf, or what --hf-config says]"}};
  entry.adapt_weights = adapt_bert_weights;
  return entry;
}

} // namespace penstock::apps
