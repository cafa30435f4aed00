// BERT's sizes and names as Hugging Face has them, what a config may say, and the spellings of its weights.
#include "apps/models/bert_weights.hpp"
#include "apps/models/registry.hpp"
#include "kernels/check.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace penstock::apps {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

model bert(std::map<std::string, std::string> own, std::int64_t classes = 2) {
  model_options options;
  options.classes = classes;
  options.own = std::move(own);
  return find_model("bert").build(options);
}

std::string refusal(std::map<std::string, std::string> own) {
  try {
    bert(std::move(own));
  } catch (const std::exception& e) {
    return e.what();
  }
  return "accepted";
}

std::map<std::string, shape> parameter_shapes(const model& network) {
  std::map<std::string, shape> shapes;
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer)
    for (const auto& spec : network.parameters(layer))
      shapes.emplace(spec.name, spec.dims);
  return shapes;
}

struct config_file {
  explicit config_file(const std::string& text) : path((folder.path() / "config.json").string()) {
    std::ofstream(path) << text;
  }
  testing_support::temporary_folder folder;
  std::string path;
};

const char* const tiny = R"({"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
  "intermediate_size": 12, "max_position_embeddings": 10, "hidden_act": "gelu_new", "architectures": ["BertModel"]})";

TEST(Bert, ParameterCountsAreHuggingFaces) {
  EXPECT_EQ(bert({}).parameter_count(), 109'483'778);
  EXPECT_EQ(bert({{"head", "span"}}).parameter_count(), 108'893'186);
  EXPECT_EQ(bert({{"head", "embed"}}).parameter_count(), 109'482'240 - 768 * 769); // without the pooler
  EXPECT_EQ(bert({{"size", "large"}}).parameter_count(), 335'143'938);
  EXPECT_EQ(bert({{"size", "large"}, {"head", "span"}}).parameter_count(), 334'094'338);
  const auto pretraining = bert({{"head", "pretraining"}});
  EXPECT_EQ(pretraining.counts(), (std::vector<std::string>{"samples", "masked"}));
  EXPECT_EQ(pretraining.parameter_count(), 110'106'428);
  EXPECT_EQ(parameter_shapes(pretraining).size(), 206U);
  EXPECT_EQ(pretraining.aliases(), (std::map<std::string, std::string>{
                                       {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                                       {"cls.predictions.decoder.bias", "cls.predictions.bias"}}))
      << "208 state entries in all";
  EXPECT_EQ(bert({{"size", "large"}, {"head", "pretraining"}}).parameter_count(), 336'226'108);
  EXPECT_EQ(bert({{"head", "pretraining"}, {"untied", "yes"}}).parameter_count(), 110'106'428 + 30522 * 768);
}

TEST(Bert, NamesAreHuggingFaces) {
  const auto shapes = parameter_shapes(bert({{"head", "pretraining"}, {"untied", "yes"}}));
  for (const auto& [name, dims] :
       std::map<std::string, shape>{{"bert.embeddings.word_embeddings.weight", {30522, 768}},
                                    {"bert.embeddings.position_embeddings.weight", {512, 768}},
                                    {"bert.embeddings.token_type_embeddings.weight", {2, 768}},
                                    {"bert.embeddings.LayerNorm.bias", {768}},
                                    {"bert.encoder.layer.11.attention.self.key.weight", {768, 768}},
                                    {"bert.encoder.layer.0.attention.output.LayerNorm.weight", {768}},
                                    {"bert.encoder.layer.0.intermediate.dense.weight", {3072, 768}},
                                    {"bert.encoder.layer.0.output.dense.bias", {768}},
                                    {"bert.pooler.dense.weight", {768, 768}},
                                    {"cls.predictions.transform.LayerNorm.weight", {768}},
                                    {"cls.predictions.bias", {30522}},
                                    {"cls.predictions.decoder.weight", {30522, 768}},
                                    {"cls.seq_relationship.weight", {2, 768}}}) {
    ASSERT_TRUE(shapes.contains(name)) << name;
    EXPECT_EQ(shapes.at(name), dims) << name;
  }
}

TEST(Bert, AConfigGivesAnyGeometry) {
  const config_file config(tiny);
  const auto shapes = parameter_shapes(bert({{"hf-config", config.path}, {"head", "span"}}));
  EXPECT_EQ(shapes.at("bert.embeddings.word_embeddings.weight"), (shape{20, 8}));
  EXPECT_EQ(shapes.at("bert.encoder.layer.0.intermediate.dense.weight"), (shape{12, 8}));
  EXPECT_EQ(shapes.at("qa_outputs.weight"), (shape{2, 8}));
  EXPECT_EQ(shapes.size(), 5U + 16 + 2);
}

TEST(Bert, WhatAConfigHasThatIsNotSupportedIsNamedAtOnce) {
  const config_file config(R"({"model_type": "roberta", "hidden_act": "relu", "position_embedding_type": "relative_key",
    "is_decoder": true, "hidden_size": 10, "num_attention_heads": 3})");
  const auto text = refusal({{"hf-config", config.path}});
  EXPECT_THAT(text, StartsWith("--hf-config: " + config.path + ": not supported: model_type 'roberta' (wanted bert)"));
  EXPECT_THAT(text, HasSubstr("hidden_act 'relu' (wanted gelu, gelu_new or gelu_pytorch_tanh)"));
  EXPECT_THAT(text, HasSubstr("position_embedding_type 'relative_key' (wanted absolute)"));
  EXPECT_THAT(text, HasSubstr("is_decoder true (wanted false)"));
  EXPECT_THAT(text, HasSubstr("hidden_size 10 (wanted a multiple of num_attention_heads 3)"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\n")));
}

TEST(Bert, RefusesOptionsByName) {
  EXPECT_EQ(refusal({{"size", "huge"}}), "--size: found 'huge', wanted base or large");
  EXPECT_EQ(refusal({{"gelu", "sigmoid"}}), "--gelu: found 'sigmoid', wanted erf or tanh");
  EXPECT_EQ(refusal({{"head", "spam"}}), "--head: found 'spam' (did you mean 'span'?), wanted classification, "
                                         "span, pretraining, embed");
  EXPECT_EQ(refusal({{"untied", "yes"}}),
            "--untied: --head classification ties nothing, wanted it beside --head pretraining");
  EXPECT_THAT(refusal({{"hf-config", "/nowhere"}}), StartsWith("--hf-config: /nowhere: "));
  const config_file config(tiny);
  EXPECT_EQ(refusal({{"size", "base"}, {"hf-config", config.path}}),
            "--size: --hf-config decides it; leave one of the two out");
  model_options options;
  options.own = {{"hf-config", config.path}};
  options.length = 11;
  EXPECT_THROW(find_model("bert").build(options), usage_error);
  options.length = 10;
  options.vocabulary = 21;
  EXPECT_THROW(find_model("bert").build(options), usage_error);
}

// -- weights ----------------------------------------------------------------------------------------------------------

// A file of the form of MiniLM's: no "bert.", position ids, a pooler, no head.
safetensors_contents minilm_file(const model& network, memory_pool& pool) {
  safetensors_contents file;
  for (const auto& [name, dims] : parameter_shapes(network)) {
    if (!name.starts_with("bert.")) continue;
    file.tensors.emplace(name.substr(5), tensor::allocate(pool, dtype::f32, dims, memory_use::scratch));
  }
  file.tensors.emplace("embeddings.position_ids", tensor::allocate(pool, dtype::i64, {1, 10}, memory_use::scratch));
  return file;
}

std::set<std::string> names_of(const safetensors_contents& file) {
  std::set<std::string> names;
  for (const auto& [name, value] : file.tensors)
    names.insert(name);
  return names;
}

std::set<std::string> names_of(const model& network) {
  std::set<std::string> names;
  for (const auto& [name, dims] : parameter_shapes(network))
    names.insert(name);
  return names;
}

TEST(BertWeights, FilesWithoutThePrefixAndAHeadFit) {
  const config_file config(tiny);
  memory_pool pool;
  const auto network = bert({{"hf-config", config.path}});
  auto file = minilm_file(network, pool);
  const auto adapted = adapt_bert_weights(network, file);
  auto all = names_of(file);
  all.insert(adapted.drawn.begin(), adapted.drawn.end());
  EXPECT_EQ(all, names_of(network));
  EXPECT_EQ(adapted.drawn, (std::set<std::string>{"classifier.bias", "classifier.weight"}));
  EXPECT_EQ(adapted.note, "drawn anew (2): classifier.bias, classifier.weight");
}

TEST(BertWeights, APoolerThatTheHeadDoesNotUseIsLeftOutAndSaid) {
  const config_file config(tiny);
  memory_pool pool;
  auto file = minilm_file(bert({{"hf-config", config.path}}), pool);
  const auto network = bert({{"hf-config", config.path}, {"head", "embed"}});
  const auto adapted = adapt_bert_weights(network, file);
  EXPECT_EQ(names_of(file), names_of(network));
  EXPECT_EQ(adapted.note, "of another head, not used (2): bert.pooler.dense.bias, bert.pooler.dense.weight");
}

TEST(BertWeights, OldSpellingsAndADecoderThatIsTheEmbeddingsFit) {
  const config_file config(tiny);
  memory_pool pool;
  const auto network = bert({{"hf-config", config.path}, {"head", "pretraining"}});
  const auto untied = bert({{"hf-config", config.path}, {"head", "pretraining"}, {"untied", "yes"}});
  safetensors_contents file;
  for (const auto& [wanted, dims] : parameter_shapes(network)) {
    std::string name = wanted;
    if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
    file.tensors.emplace(name, tensor::allocate(pool, dtype::f32, dims, memory_use::scratch));
  }
  file.tensors.emplace("cls.predictions.decoder.bias", file.tensors.at("cls.predictions.bias"));
  auto again = file;
  const auto adapted = adapt_bert_weights(network, file);
  EXPECT_EQ(names_of(file), names_of(network));
  EXPECT_TRUE(adapted.drawn.empty());
  EXPECT_EQ(adapted.note, "");
  EXPECT_EQ(adapt_bert_weights(untied, again).note, "");
  EXPECT_EQ(names_of(again), names_of(untied));
  EXPECT_EQ(again.tensors.at("cls.predictions.decoder.weight").raw(),
            again.tensors.at("bert.embeddings.word_embeddings.weight").raw());
}

TEST(BertWeights, ATiedHeadMayBeThereTwiceButIsOneTensor) {
  const config_file config(tiny);
  memory_pool pool;
  const auto network = bert({{"hf-config", config.path}, {"head", "pretraining"}});
  safetensors_contents file;
  for (const auto& [name, dims] : parameter_shapes(network)) {
    auto t = tensor::allocate(pool, dtype::f32, dims, memory_use::scratch);
    std::fill_n(t.data<float>(), t.elements(), 0.5F);
    file.tensors.emplace(name, t);
  }
  auto equal = tensor::allocate(pool, dtype::f32, {20, 8}, memory_use::scratch);
  std::fill_n(equal.data<float>(), equal.elements(), 0.5F);
  file.tensors.emplace("cls.predictions.decoder.weight", equal);
  auto both = file;
  EXPECT_EQ(adapt_bert_weights(network, both).note, "");
  EXPECT_EQ(names_of(both), names_of(network));
  equal.data<float>()[3] = 0.25F;
  EXPECT_THAT([&] { adapt_bert_weights(network, file); },
              testing::ThrowsMessage<usage_error>(
                  "[weights] cls.predictions.decoder.weight and bert.embeddings.word_embeddings.weight differ, and are "
                  "one tensor of bert: wanted equal values, or the model untied"));
}

TEST(BertWeights, OneTensorUnderTwoSpellingsIsRefused) {
  const config_file config(tiny);
  memory_pool pool;
  const auto network = bert({{"hf-config", config.path}});
  auto file = minilm_file(network, pool);
  file.tensors.emplace("embeddings.LayerNorm.gamma", file.tensors.at("embeddings.LayerNorm.weight"));
  EXPECT_THROW(adapt_bert_weights(network, file), usage_error);
}

} // namespace
} // namespace penstock::apps
