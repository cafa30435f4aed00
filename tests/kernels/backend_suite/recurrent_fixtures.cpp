// Reads recurrent.json into calls of our own layers and what they must answer.
#include "tests/kernels/backend_suite/recurrent_fixtures.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/additive_attention.hpp"
#include "kernels/layers/bidirectional_lstm.hpp"
#include "kernels/layers/lstm.hpp"

#include <nlohmann/json.hpp>

#include <fstream>

namespace penstock::testing {

namespace {

using nlohmann::json;

host_tensor tensor_of(const json& entry) {
  host_tensor result;
  if (entry.is_null()) return result;
  result.dims = entry.at("dims").get<shape>();
  if (entry.value("type", "f32") == "i64") result.type = dtype::i64;
  for (const json& value : entry.at("values"))
    result.values.push_back(static_cast<float>(value.get<double>() * entry.at("unit").get<double>()));
  return result;
}

std::vector<host_tensor> tensors_of(const json& entries) {
  std::vector<host_tensor> result;
  for (const json& one : entries)
    result.push_back(tensor_of(one));
  return result;
}

layer_ptr layer_of(const json& entry) {
  const std::string kind = entry.at("kind");
  const std::int64_t hidden = entry.at("hidden");
  if (kind == "lstm")
    return layers::lstm(hidden, {.biases = entry.value("biases", 2),
                                 .gates = entry.value("gates", "ifgo") == "ifog" ? gate_order::ifog : gate_order::ifgo,
                                 .reverse = entry.value("reverse", false),
                                 .lengths = entry.value("lengths", false),
                                 .state = entry.value("state", false),
                                 .continues = entry.value("continues", false)});
  if (kind == "bidirectional_lstm") return layers::bidirectional_lstm(hidden);
  if (kind == "additive_attention") return layers::additive_attention(hidden, {.probabilities = true});
  throw error("the fixture file has a layer of unknown kind " + kind);
}

std::vector<layer_fixture> read() {
  std::ifstream stream(PENSTOCK_RECURRENT_FIXTURES);
  if (!stream) throw error(std::string("cannot read ") + PENSTOCK_RECURRENT_FIXTURES);
  const json document = json::parse(stream);
  std::vector<layer_fixture> fixtures;
  for (const json& entry : document.at("layers")) {
    layer_fixture one{.name = entry.at("name"), .call = {}, .expected = {}};
    one.call.op = layer_of(entry.at("layer"));
    one.call.inputs = tensors_of(entry.at("inputs"));
    one.call.weights = tensors_of(entry.at("weights"));
    one.call.output_gradients = {tensor_of(entry.at("output_gradient"))};
    one.expected.outputs = tensors_of(entry.at("outputs"));
    one.expected.input_gradients = tensors_of(entry.at("input_gradients"));
    one.expected.weight_gradients = tensors_of(entry.at("weight_gradients"));
    fixtures.push_back(std::move(one));
  }
  return fixtures;
}

} // namespace

const std::vector<layer_fixture>& recurrent_fixtures() {
  static const std::vector<layer_fixture> fixtures = read();
  return fixtures;
}

} // namespace penstock::testing
