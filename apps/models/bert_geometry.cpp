// Reads a Hugging Face config.json as one that a person may have edited.
#include "apps/models/bert_geometry.hpp"

#include "apps/models/own_options.hpp"
#include "kernels/check.hpp"
#include "kernels/input_file.hpp"
#include "kernels/text.hpp"
#include "planner/profile/json_reader.hpp"

#include <cmath>

namespace penstock::apps {

namespace {

using planner::json_value;

constexpr std::uint64_t largest_config = 1 << 20;
constexpr std::int64_t most = 1 << 24; // of any size

// Takes what it knows; collects what another model would be.
class config_reader {
public:
  explicit config_reader(const json_value& root) : root_(root) {}

  bert_geometry read() {
    expect_text("model_type", "bert");
    expect_text("position_embedding_type", "absolute");
    expect_off("is_decoder");
    expect_off("add_cross_attention");
    expect_off("is_encoder_decoder");
    for (const char* key : {"quantization_config", "pruned_heads"})
      if (const auto v = find(key); v && !(v->members().empty())) refuse(key, "an object with members", "none");
    bert_geometry g;
    g.gelu = activation();
    g.vocabulary = whole("vocab_size", g.vocabulary, 1);
    g.layers = whole("num_hidden_layers", g.layers, 1);
    g.hidden = whole("hidden_size", g.hidden, 1);
    g.heads = whole("num_attention_heads", g.heads, 1);
    g.inner = whole("intermediate_size", g.inner, 1);
    g.positions = whole("max_position_embeddings", g.positions, 1);
    g.types = whole("type_vocab_size", g.types, 1);
    const bool has_no_padding = root_.find("pad_token_id") && !find("pad_token_id");
    g.padding_row = has_no_padding ? -1 : whole("pad_token_id", g.padding_row, 0);
    g.hidden_dropout = real("hidden_dropout_prob", g.hidden_dropout);
    g.attention_dropout = real("attention_probs_dropout_prob", g.attention_dropout);
    g.head_dropout = real("classifier_dropout", g.hidden_dropout);
    g.epsilon = real("layer_norm_eps", g.epsilon);
    g.deviation = real("initializer_range", g.deviation);
    if (g.hidden % g.heads != 0)
      refuse("hidden_size", std::to_string(g.hidden), "a multiple of num_attention_heads " + std::to_string(g.heads));
    if (g.padding_row >= g.vocabulary)
      refuse("pad_token_id", std::to_string(g.padding_row), "below vocab_size " + std::to_string(g.vocabulary));
    for (const auto& [key, rate] : {std::pair("hidden_dropout_prob", g.hidden_dropout),
                                    std::pair("attention_probs_dropout_prob", g.attention_dropout),
                                    std::pair("classifier_dropout", g.head_dropout)})
      if (rate >= 1) refuse(key, "1", "below 1");
    if (!unsupported_.empty()) throw usage_error(root_.where() + ": not supported: " + join(unsupported_, "; "));
    return g;
  }

private:
  // Absent and null are the same in these files.
  std::optional<json_value> find(const std::string& key) const {
    auto found = root_.find(key);
    if (found && found->is_null()) return std::nullopt;
    return found;
  }
  std::int64_t whole(const std::string& key, std::int64_t otherwise, std::int64_t least) const {
    const auto v = find(key);
    return v ? v->whole(least, most) : otherwise;
  }
  float real(const std::string& key, float otherwise) const {
    const auto v = find(key);
    return v ? static_cast<float>(v->number(0, 1)) : otherwise;
  }
  void refuse(const std::string& key, const std::string& found, const std::string& wanted) {
    unsupported_.push_back(key + " " + found + " (wanted " + wanted + ")");
  }
  void expect_text(const std::string& key, const std::string& wanted) {
    const auto v = find(key);
    if (v && v->text() != wanted) refuse(key, in_quotes(v->text()), wanted);
  }
  void expect_off(const std::string& key) {
    const auto v = find(key);
    if (v && v->flag()) refuse(key, "true", "false");
  }
  layers::gelu_form activation() {
    const auto v = find("hidden_act");
    const auto name = v ? v->text() : "gelu";
    if (name == "gelu_new" || name == "gelu_pytorch_tanh") return layers::gelu_form::tanh;
    if (name != "gelu" && name != "gelu_python")
      refuse("hidden_act", in_quotes(name), "gelu, gelu_new or gelu_pytorch_tanh");
    return layers::gelu_form::erf;
  }

  const json_value& root_;
  std::vector<std::string> unsupported_;
};

bert_geometry read_config(const std::string& file) {
  const auto text = read_whole_file(file, largest_config);
  try {
    const auto parsed = planner::parse_json(text, file);
    return config_reader(json_value(parsed, file)).read();
  } catch (const std::invalid_argument& fault) {
    throw usage_error(fault.what());
  }
}

bert_geometry unscaled(const model_options& options) {
  const auto size = own_text(options, "size"), config = own_text(options, "hf-config");
  if (!config.empty()) {
    if (!size.empty()) throw usage_error("--size: --hf-config decides it; leave one of the two out");
    try {
      return read_config(config);
    } catch (const usage_error& fault) {
      throw usage_error(std::string("--hf-config: ") + fault.what());
    } catch (const error& fault) {
      throw error(std::string("--hf-config: ") + fault.what());
    }
  }
  bert_geometry g;
  if (size == "large") g.layers = 24, g.hidden = 1024, g.heads = 16, g.inner = 4096;
  if (!size.empty() && size != "base" && size != "large")
    throw usage_error("--size: found " + in_quotes(size) + ", wanted base or large");
  return g;
}

// As many heads of the same size as the width asks for.
void scale(bert_geometry& g, double width) {
  if (!(width > 0 && width <= widest))
    throw usage_error("bert: width " + std::to_string(width) + " is not above 0 and at most 16");
  if (width == 1) return;
  const auto before = g.heads, features = g.hidden / g.heads;
  g.heads = std::max<std::int64_t>(1, std::llround(static_cast<double>(g.heads) * width));
  g.hidden = g.heads * features;
  g.inner = std::max<std::int64_t>(1, g.inner * g.heads / before);
}

void take_vocabulary(bert_geometry& g, const model_options& options) {
  if (options.vocabulary == 0) return;
  const bool is_fixed = !own_text(options, "hf-config").empty();
  if (is_fixed && options.vocabulary > g.vocabulary)
    throw usage_error("vocabulary of bert: found " + std::to_string(options.vocabulary) +
                      " tokens, wanted at most the " + std::to_string(g.vocabulary) + " of vocab_size in --hf-config");
  if (!is_fixed) g.vocabulary = options.vocabulary;
}

} // namespace

bert_geometry bert_geometry_of(const model_options& options) {
  auto g = unscaled(options);
  scale(g, options.width);
  take_vocabulary(g, options);
  if (const auto form = own_text(options, "gelu"); !form.empty()) {
    if (form != "erf" && form != "tanh") throw usage_error("--gelu: found " + in_quotes(form) + ", wanted erf or tanh");
    g.gelu = form == "erf" ? layers::gelu_form::erf : layers::gelu_form::tanh;
  }
  if (!(options.dropout < 1))
    throw usage_error("bert: --dropout " + std::to_string(options.dropout) + " is not below 1");
  if (options.dropout >= 0)
    g.hidden_dropout = g.attention_dropout = g.head_dropout = static_cast<float>(options.dropout);
  return g;
}

} // namespace penstock::apps
