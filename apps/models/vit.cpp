// ViT-B/16 (Dosovitskiy et al., arXiv:2010.11929). Names and initialisers are torchvision's, or Hugging Face's with
// --names hf, whose queries, keys and values are layers of their own and whose normalisations have another epsilon.
#include "apps/models/vit.hpp"

#include "apps/models/network.hpp"
#include "kernels/check.hpp"

#include <cmath>

namespace penstock::apps {

namespace {

constexpr std::int64_t patch = 16;
constexpr std::int64_t default_size = 224;
constexpr std::int64_t blocks = 12;
constexpr std::int64_t head_features = 64;
constexpr auto near_zero = initializer{initializer_kind::normal, 1e-6F};
constexpr auto hf_init = truncated_normal(0.02F);

/// Hidden sizes: as many heads of 64 as the width asks for, one at least.
struct geometry {
  std::int64_t heads;
  std::int64_t hidden;
  std::int64_t inner;
  std::int64_t tokens; // the class's included
};

geometry geometry_of(const network& net) {
  const auto heads = std::max<std::int64_t>(1, std::llround(12 * net.options().width));
  const auto hidden = heads * head_features;
  const auto side = net.options().image_size / patch;
  return {heads, hidden, 4 * hidden, side * side + 1};
}

layer_ptr dense(std::int64_t in, std::int64_t out, const initializer& weight, const initializer& bias = zero_init) {
  return layers::linear({.in_features = in, .out_features = out, .weight_init = weight, .bias_init = bias});
}

layer_ptr patches(const network& net, std::int64_t hidden, const initializer& weight) {
  layers::conv2d_options options;
  options.in_channels = net.last_dims().at(1);
  options.out_channels = hidden;
  options.kernel = {patch, patch};
  options.args.stride = {patch, patch};
  options.weight_init = weight;
  options.bias_init = zero_init;
  return layers::conv2d(options);
}

// Only where there is something to drop: a product computes the activation behind it within itself.
void drop(network& net, const std::string& name) {
  if (net.dropout_rate() > 0) net.dropout(name);
}

void add_residual(network& net, const std::string& name, value_id trunk) {
  net.add(name, layers::add(), {net.last(), trunk});
}

void add_block(network& net, const geometry& g, const std::string& name) {
  const auto norm = layers::layer_norm({.normalized = {g.hidden}, .epsilon = 1e-6F});
  const auto self = name + ".self_attention";
  net.builder().freeze_unit();
  auto trunk = net.last();
  net.add(name + ".ln_1", norm);
  net.add(self, layers::linear({.in_features = g.hidden,
                                .out_features = 3 * g.hidden,
                                .weight_init = xavier_uniform(g.hidden, 3 * g.hidden),
                                .bias_init = zero_init,
                                .weight_name = "in_proj_weight",
                                .bias_name = "in_proj_bias"}));
  net.add(self + ".attend", layers::attention(g.heads)); // torchvision's attention_dropout is another rate, 0
  net.add(self + ".out_proj",
          layers::linear({.in_features = g.hidden, .out_features = g.hidden, .bias_init = zero_init}));
  drop(net, name + ".dropout");
  add_residual(net, name + ".add_1", trunk);
  net.builder().keep_together({name + ".ln_1", self, self + ".attend", self + ".out_proj", name + ".add_1"});
  trunk = net.last();
  net.add(name + ".ln_2", norm);
  net.add(name + ".mlp.0", dense(g.hidden, g.inner, xavier_uniform(g.hidden, g.inner), near_zero));
  net.add(name + ".mlp.1", layers::gelu());
  drop(net, name + ".mlp.2");
  net.add(name + ".mlp.3", dense(g.inner, g.hidden, xavier_uniform(g.inner, g.hidden), near_zero));
  drop(net, name + ".mlp.4");
  add_residual(net, name + ".add_2", trunk);
  net.builder().keep_together({name + ".ln_2", name + ".mlp.0", name + ".mlp.1", name + ".mlp.3", name + ".add_2"});
}

void add_all(network& net, const geometry& g) {
  const auto fan_in = static_cast<double>(net.last_dims().at(1) * patch * patch);
  net.add("conv_proj", patches(net, g.hidden, truncated_normal(static_cast<float>(std::sqrt(1 / fan_in)))));
  net.add("to_sequence", layers::to_sequence());
  net.add("class_token", layers::class_token(g.hidden));
  net.add("encoder.pos_embedding",
          layers::positions(g.tokens, g.hidden,
                            {.init = {initializer_kind::normal, 0.02F}, .name = "", .leading_axis = true}));
  drop(net, "encoder.dropout");
  for (std::int64_t i = 0; i < blocks; ++i)
    add_block(net, g, "encoder.layers.encoder_layer_" + std::to_string(i));
  net.builder().freeze_unit();
  net.add("encoder.ln", layers::layer_norm({.normalized = {g.hidden}, .epsilon = 1e-6F}));
  net.add("class_output", layers::select_token(0));
  net.add("heads.head", dense(g.hidden, net.classes(), zero_init));
}

void add_hf_block(network& net, const geometry& g, const std::string& name) {
  const auto norm = layers::layer_norm({.normalized = {g.hidden}, .epsilon = 1e-12F});
  const auto self = name + ".attention.attention";
  net.builder().freeze_unit();
  auto trunk = net.last();
  net.add(name + ".layernorm_before", norm);
  const auto normed = net.last();
  std::vector<value_id> qkv;
  for (const char* part : {".query", ".key", ".value"}) {
    net.add(self + part, dense(g.hidden, g.hidden, hf_init), {normed});
    qkv.push_back(net.last());
  }
  net.add(self + ".attend", layers::attention(g.heads), qkv); // attention_probs_dropout_prob is another rate, 0
  net.add(name + ".attention.output.dense", dense(g.hidden, g.hidden, hf_init));
  drop(net, name + ".attention.output.dropout");
  add_residual(net, name + ".add_1", trunk);
  net.builder().keep_together({name + ".layernorm_before", self + ".query", self + ".key", self + ".value",
                               self + ".attend", name + ".attention.output.dense", name + ".add_1"});
  trunk = net.last();
  net.add(name + ".layernorm_after", norm);
  net.add(name + ".intermediate.dense", dense(g.hidden, g.inner, hf_init));
  net.add(name + ".intermediate.gelu", layers::gelu());
  net.add(name + ".output.dense", dense(g.inner, g.hidden, hf_init));
  drop(net, name + ".output.dropout");
  add_residual(net, name + ".add_2", trunk);
  net.builder().keep_together({name + ".layernorm_after", name + ".intermediate.dense", name + ".intermediate.gelu",
                               name + ".output.dense", name + ".add_2"});
}

void add_all_of_hf(network& net, const geometry& g) {
  const std::string embeddings = "vit.embeddings.";
  net.add(embeddings + "patch_embeddings.projection", patches(net, g.hidden, hf_init));
  net.add(embeddings + "to_sequence", layers::to_sequence());
  net.add(embeddings + "cls_token", layers::class_token(g.hidden, hf_init));
  net.add(embeddings + "position_embeddings",
          layers::positions(g.tokens, g.hidden, {.init = hf_init, .name = "", .leading_axis = true}));
  drop(net, embeddings + "dropout");
  for (std::int64_t i = 0; i < blocks; ++i)
    add_hf_block(net, g, "vit.encoder.layer." + std::to_string(i));
  net.builder().freeze_unit();
  net.add("vit.layernorm", layers::layer_norm({.normalized = {g.hidden}, .epsilon = 1e-12F}));
  net.add("class_output", layers::select_token(0));
  net.add("classifier", dense(g.hidden, net.classes(), hf_init));
}

bool has_hf_names(const model_options& options) {
  const auto names = options.own.find("names");
  if (names == options.own.end() || names->second == "torchvision") return false;
  if (names->second == "hf") return true;
  throw usage_error("--names: found '" + names->second.substr(0, 80) + "', wanted torchvision or hf");
}

model build_vit(const model_options& options) {
  network net("vit_b_16", options, default_size, patch, 3, 0.0F);
  const auto size = net.options().image_size;
  if (size < patch)
    throw usage_error("vit_b_16: conv_proj: input " + std::to_string(size) + "x" + std::to_string(size) +
                      " is smaller than a patch of 16x16");
  if (size % patch != 0)
    throw usage_error("vit_b_16: --image-size: found " + std::to_string(size) +
                      ", wanted a multiple of the patches' 16");
  const auto g = geometry_of(net);
  has_hf_names(options) ? add_all_of_hf(net, g) : add_all(net, g);
  return net.build();
}

} // namespace

model_entry vit_b_16_entry() {
  return {
      "vit_b_16",
      "ViT-B/16, a vision transformer",
      default_size,
      patch,
      build_vit,
      true,
      {{"names", "WHOSE", "Of parameters: torchvision, or hf, Hugging Face's, with their epsilon and initial values"}}};
}

} // namespace penstock::apps
