// GNMT's sizes and names as MLPerf has them, its two published forms, what is refused, and the spellings of its
// weights.
#include "apps/models/gnmt.hpp"
#include "apps/models/gnmt_weights.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace penstock::apps {
namespace {

using testing::HasSubstr;

using own_options = std::map<std::string, std::string>;

model gnmt(const std::string& name, own_options own = {}, double width = 1, std::int64_t vocabulary = 0) {
  model_options options;
  options.width = width;
  options.vocabulary = vocabulary;
  options.own = std::move(own);
  return find_model(name).build(options);
}

model narrow(own_options own = {}) {
  return gnmt("gnmt8", std::move(own), 0.01, 11);
}

std::map<std::string, parameter_spec> parameters_of(const model& network) {
  std::map<std::string, parameter_spec> all;
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer)
    for (const auto& spec : network.parameters(layer))
      all.emplace(spec.name, spec);
  return all;
}

std::string refusal(const std::string& name, own_options own) {
  try {
    gnmt(name, std::move(own));
  } catch (const usage_error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Gnmt, ParameterCountsAreThePublishedPrograms) {
  EXPECT_EQ(gnmt("gnmt8").parameter_count(), 193'766'977);
  EXPECT_EQ(gnmt("gnmt8", {{"tied", "yes"}}).parameter_count(), 160'671'297);
  EXPECT_EQ(gnmt("gnmt16").parameter_count(), 277'718'593);
  EXPECT_EQ(gnmt("gnmt16", {{"tied", "yes"}}).parameter_count(), 244'622'913);
  for (const std::int64_t n : {2, 3, 32}) {
    const std::int64_t h = 64, v = 90;
    const auto of = gnmt("gnmt_large", {{"layers", std::to_string(n)}}, 0.0625, v);
    EXPECT_EQ(of.parameter_count(), (10 + 20 * n) * h * h + (10 + 16 * n) * h + 1 + v * (2 * h + 1) + v * h) << n;
  }
}

TEST(Gnmt, NamesAreMlperfs) {
  const auto all = parameters_of(gnmt("gnmt8"));
  for (const auto& [name, dims] : std::map<std::string, shape>{{"encoder.embedder.weight", {32320, 1024}},
                                                               {"encoder.rnn_layers.0.weight_ih_l0", {4096, 1024}},
                                                               {"encoder.rnn_layers.0.bias_hh_l0_reverse", {4096}},
                                                               {"encoder.rnn_layers.1.weight_ih_l0", {4096, 2048}},
                                                               {"encoder.rnn_layers.3.weight_hh_l0", {4096, 1024}},
                                                               {"decoder.embedder.weight", {32320, 1024}},
                                                               {"decoder.att_rnn.rnn.weight_ih_l0", {4096, 1024}},
                                                               {"decoder.att_rnn.attn.linear_q.weight", {1024, 1024}},
                                                               {"decoder.att_rnn.attn.linear_k.weight", {1024, 1024}},
                                                               {"decoder.att_rnn.attn.linear_att", {1024}},
                                                               {"decoder.att_rnn.attn.normalize_scalar", {1}},
                                                               {"decoder.att_rnn.attn.normalize_bias", {1024}},
                                                               {"decoder.rnn_layers.2.weight_ih_l0", {4096, 2048}},
                                                               {"decoder.classifier.classifier.weight", {32320, 1024}},
                                                               {"decoder.classifier.classifier.bias", {32320}}}) {
    ASSERT_TRUE(all.contains(name)) << name;
    EXPECT_EQ(all.at(name).dims, dims) << name;
  }
  EXPECT_EQ(all.size(), 1U + 8 + 3 * 4 + 1 + 4 + 5 + 3 * 4 + 2);
  EXPECT_FALSE(parameters_of(gnmt("gnmt8", {{"tied", "yes"}})).contains("decoder.embedder.weight"));
}

TEST(Gnmt, InitialValuesAreOfTheFormThatIsAskedFor) {
  const auto uniform = [](const parameter_spec& spec, double bound) {
    EXPECT_EQ(spec.init.kind, initializer_kind::uniform) << spec.name;
    EXPECT_NEAR(spec.init.value, bound, 1e-7) << spec.name;
  };
  const auto torch = parameters_of(narrow()), mlperf = parameters_of(narrow({{"tied", "yes"}}));
  const double root = 1 / std::sqrt(8.0);
  EXPECT_EQ(torch.at("decoder.embedder.weight").init.kind, initializer_kind::normal);
  EXPECT_EQ(torch.at("decoder.embedder.weight").init.zeros_end, 8);
  uniform(torch.at("decoder.rnn_layers.0.bias_hh_l0"), root);
  uniform(torch.at("decoder.att_rnn.attn.linear_att"), root);
  for (const auto& [name, spec] : mlperf) {
    if (name.find("bias_hh") != std::string::npos || name.ends_with("normalize_bias"))
      EXPECT_EQ(spec.init.value, 0) << name;
    else
      uniform(spec.name.ends_with("normalize_scalar") ? mlperf.at("decoder.classifier.classifier.bias") : spec, 0.1);
  }
  EXPECT_NEAR(mlperf.at("decoder.att_rnn.attn.normalize_scalar").init.value, root, 1e-7);
  uniform(parameters_of(narrow({{"initial-values", "mlperf"}})).at("decoder.embedder.weight"), 0.1);
}

// Which value each dropout reads, by name.
std::map<std::string, std::string> dropped(const model& network) {
  std::map<std::string, std::string> read;
  for (const auto& layer : network.layers())
    if (layer.op->kind() == "dropout") read[layer.name] = network.value(layer.inputs.front()).name;
  return read;
}

TEST(Gnmt, DropoutStandsWhereEitherProgramHasIt) {
  EXPECT_EQ(dropped(narrow()),
            (std::map<std::string, std::string>{{"encoder.rnn_layers.1.dropout", "encoder.rnn_layers.0"},
                                                {"encoder.rnn_layers.2.dropout", "encoder.rnn_layers.1"},
                                                {"encoder.rnn_layers.3.dropout", "encoder.rnn_layers.2.residual"},
                                                {"decoder.rnn_layers.0.dropout", "decoder.att_rnn.rnn"},
                                                {"decoder.rnn_layers.1.dropout", "decoder.rnn_layers.0"},
                                                {"decoder.rnn_layers.2.dropout", "decoder.rnn_layers.1.residual"}}));
  const auto mlperf = dropped(narrow({{"dropout-places", "mlperf"}}));
  EXPECT_EQ(mlperf.size(), 8U);
  EXPECT_EQ(mlperf.at("encoder.rnn_layers.0.dropout"), "encoder.embedder");
  EXPECT_EQ(mlperf.at("decoder.att_rnn.dropout"), "decoder.embedder");
  EXPECT_EQ(mlperf.at("decoder.rnn_layers.2.dropout"), "decoder.rnn_layers.2.concat");
  EXPECT_EQ(dropped(narrow({{"tied", "yes"}})), mlperf);
  EXPECT_EQ(dropped(narrow({{"tied", "yes"}, {"dropout-places", "pipedream"}})), dropped(narrow()));
}

// What crosses the cut before a layer.
std::vector<std::string> crossing(const model& network, const std::string& name) {
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer) {
    if (network.layers()[static_cast<std::size_t>(layer)].name != name) continue;
    std::vector<std::string> names;
    for (const auto id : network.crossing(layer))
      names.push_back(network.value(id).name);
    return names;
  }
  return {"no such layer"};
}

TEST(Gnmt, TheEncodersOutputGoesToTheAttentionAloneAndItsContextOn) {
  using names = std::vector<std::string>;
  const auto network = narrow();
  EXPECT_EQ(crossing(network, "decoder.embedder"), (names{"encoder.rnn_layers.3.residual"}));
  EXPECT_EQ(crossing(network, "decoder.att_rnn.attn"), (names{"encoder.rnn_layers.3.residual", "decoder.att_rnn.rnn"}));
  for (const char* layer : {"decoder.rnn_layers.0.dropout", "decoder.rnn_layers.1.dropout"})
    EXPECT_EQ(crossing(network, layer).size(), 2U) << layer;
  EXPECT_THAT(crossing(network, "decoder.rnn_layers.2.dropout"), testing::Contains("decoder.att_rnn.attn"));
  EXPECT_EQ(crossing(network, "decoder.classifier.classifier"), (names{"decoder.rnn_layers.2.residual"}));
}

TEST(Gnmt, EncoderAndOneStepOfTheDecoderAreModelsOfTheirOwn) {
  const auto g = gnmt_geometry_of("gnmt8", 4, {.width = 0.01, .vocabulary = 11, .own = {{"tied", "yes"}}});
  model_builder encoder("encoder");
  const auto time = encoder.extent("source_time", 5);
  const auto source = encoder.input("source", dtype::i64, {time});
  const auto encoded = gnmt_encoder(encoder, g, source, encoder.input("source_lengths", dtype::i64, {}));
  const auto reads = encoder.build_inference(encoded);

  model_builder decoder("decoder");
  const auto tokens = decoder.input("target", dtype::i64, {1});
  const auto keys = decoder.input("encoded", dtype::f32, {decoder.extent("source_time", 5), 8});
  const auto lengths = decoder.input("source_lengths", dtype::i64, {});
  gnmt_memory memory;
  for (int i = 0; i < 4; ++i) {
    memory.h.push_back(decoder.input("h" + std::to_string(i), dtype::f32, {8}));
    memory.c.push_back(decoder.input("c" + std::to_string(i), dtype::f32, {8}));
  }
  const auto made =
      gnmt_decoder(decoder, g, tokens, keys, lengths, {.memory = &memory, .probabilities = true, .alone = true});
  EXPECT_EQ(decoder.spec(made.logits).dims, (shape{1, 1, 11}));
  EXPECT_EQ(decoder.spec(made.probabilities).dims, (shape{1, 1, 5}));
  ASSERT_EQ(made.memory.h.size(), 4U);
  EXPECT_EQ(decoder.spec(made.memory.c.back()).dims, (shape{1, 8}));
  const auto writes = decoder.build_inference(made.logits);

  auto both = parameters_of(reads);
  both.merge(parameters_of(writes));
  std::set<std::string> names, whole;
  for (const auto& [name, spec] : both)
    names.insert(name);
  for (const auto& [name, spec] : parameters_of(narrow({{"tied", "yes"}})))
    whole.insert(name);
  EXPECT_EQ(names, whole);
}

TEST(Gnmt, RefusesOptionsByName) {
  EXPECT_EQ(refusal("gnmt8", {{"dropout-places", "mlpref"}}),
            "--dropout-places: found 'mlpref' (did you mean 'mlperf'?), wanted pipedream or mlperf");
  EXPECT_THAT(refusal("gnmt8", {{"initial-values", "zeros"}}), HasSubstr("--initial-values: found 'zeros'"));
  EXPECT_EQ(refusal("gnmt_large", {{"layers", "1"}}), "--layers: found '1', wanted a whole number from 2 to 256");
  EXPECT_THAT(refusal("gnmt16", {{"target-length", "0x5"}}), HasSubstr("--target-length: found '0x5'"));
  EXPECT_EQ(refusal("gnmt8", {{"tied", "yes"}, {"untied", "yes"}}), "--untied: found --tied beside it, wanted one");
  EXPECT_EQ(refusal("gnmt8", {{"untied", "yes"}}), "accepted");
}

// -- weights ----------------------------------------------------------------------------------------------------------

safetensors_contents file_of(const model& network, memory_pool& pool) {
  safetensors_contents file;
  float value = 0;
  for (const auto& [name, spec] : parameters_of(network)) {
    auto t = tensor::allocate(pool, dtype::f32, spec.dims, memory_use::scratch);
    std::fill_n(t.data<float>(), t.elements(), value += 1);
    file.tensors.emplace(name, t);
  }
  return file;
}

// As a wrapped MLPerf model has them.
safetensors_contents of_mlperf(const safetensors_contents& file) {
  const std::string first = "encoder.rnn_layers.0.", reverse = "_reverse";
  safetensors_contents wrapped;
  for (const auto& [name, value] : file.tensors) {
    if (!name.starts_with(first)) {
      wrapped.tensors.emplace("module." + name, value);
      continue;
    }
    auto own = name.substr(first.size());
    wrapped.tensors.emplace("module." + first + "bidir." + own, value);
    const bool is_reverse = own.ends_with(reverse);
    if (is_reverse) own.resize(own.size() - reverse.size());
    wrapped.tensors.emplace("module." + first + (is_reverse ? "layer2." : "layer1.") + own, value);
  }
  return wrapped;
}

void expect_same(const safetensors_contents& found, const safetensors_contents& wanted) {
  ASSERT_EQ(found.tensors.size(), wanted.tensors.size());
  for (const auto& [name, value] : wanted.tensors) {
    ASSERT_TRUE(found.tensors.contains(name)) << name;
    EXPECT_EQ(*found.tensors.at(name).data<float>(), *value.data<float>()) << name;
  }
}

TEST(GnmtWeights, TheNamesOfAWrappedModelAndOfItsFirstLayersPartsFit) {
  memory_pool pool;
  const auto network = narrow();
  const auto file = file_of(network, pool);
  auto wrapped = of_mlperf(file);
  EXPECT_EQ(wrapped.tensors.size(), file.tensors.size() + 8);
  const auto adapted = adapt_gnmt_weights(network, wrapped);
  expect_same(wrapped, file);
  EXPECT_TRUE(adapted.drawn.empty());
  auto parts = of_mlperf(file);
  std::erase_if(parts.tensors, [](const auto& t) { return t.first.find("bidir") != std::string::npos; });
  adapt_gnmt_weights(network, parts);
  expect_same(parts, file);
}

TEST(GnmtWeights, OneTableIsForBothLanguagesWhereThereIsNoOther) {
  memory_pool pool;
  const auto tied = narrow({{"tied", "yes"}}), untied = narrow();
  auto file = file_of(tied, pool);
  adapt_gnmt_weights(tied, file);
  EXPECT_FALSE(file.tensors.contains("decoder.embedder.weight"));
  adapt_gnmt_weights(untied, file);
  EXPECT_EQ(*file.tensors.at("decoder.embedder.weight").data<float>(),
            *file.tensors.at("encoder.embedder.weight").data<float>());
}

TEST(GnmtWeights, NamesOfOneTensorThatDifferAreRefused) {
  memory_pool pool;
  const auto network = narrow();
  const auto file = file_of(network, pool);
  auto wrapped = of_mlperf(file);
  const std::string part = "module.encoder.rnn_layers.0.layer2.bias_ih_l0";
  wrapped.tensors.at(part) = wrapped.tensors.at("module.decoder.rnn_layers.0.bias_ih_l0");
  EXPECT_THAT([&] { adapt_gnmt_weights(network, wrapped); },
              testing::ThrowsMessage<usage_error>(
                  "[weights] two tensors are encoder.rnn_layers.0.bias_ih_l0_reverse and hold different numbers"));
}

} // namespace
} // namespace penstock::apps
