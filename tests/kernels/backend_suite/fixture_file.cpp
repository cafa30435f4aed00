// Reads layers.json into calls of our own layers and what they must answer.
#include "tests/kernels/backend_suite/fixture_file.hpp"

#include "kernels/check.hpp"
#include "kernels/layers/layers.hpp"

#include <nlohmann/json.hpp>

#include <fstream>

namespace penstock::testing {

namespace {

using nlohmann::json;

host_tensor tensor_of(const json& entry) {
  host_tensor result{entry.at("dims").get<shape>(), {}};
  for (const json& value : entry.at("values"))
    result.values.push_back(static_cast<float>(value.get<double>() * entry.at("unit").get<double>()));
  return result;
}

std::vector<host_tensor> tensors_of(const json& entry, const char* key) {
  std::vector<host_tensor> result;
  if (entry.contains(key))
    for (const json& one : entry.at(key))
      result.push_back(tensor_of(one));
  return result;
}

std::array<std::int64_t, 2> pair_of(const json& entry, const char* key) {
  return entry.at(key).get<std::array<std::int64_t, 2>>();
}

layer_ptr conv2d_of(const json& entry) {
  return layers::conv2d({.in_channels = entry.at("in_channels"),
                         .out_channels = entry.at("out_channels"),
                         .kernel = pair_of(entry, "kernel"),
                         .args = {.stride = pair_of(entry, "stride"),
                                  .padding = pair_of(entry, "padding"),
                                  .dilation = pair_of(entry, "dilation"),
                                  .groups = entry.at("groups")},
                         .bias = entry.at("bias")});
}

layer_ptr pool2d_of(const json& entry, pool_kind kind) {
  return layers::pool2d({.kind = kind,
                         .kernel = pair_of(entry, "kernel"),
                         .stride = pair_of(entry, "stride"),
                         .padding = pair_of(entry, "padding"),
                         .ceil_mode = entry.at("ceil_mode"),
                         .count_include_pad = entry.at("count_include_pad")});
}

layer_ptr layer_of(const json& entry) {
  const std::string kind = entry.at("kind");
  if (kind == "conv2d") return conv2d_of(entry);
  if (kind == "linear")
    return layers::linear(
        {.in_features = entry.at("in_features"), .out_features = entry.at("out_features"), .bias = entry.at("bias")});
  if (kind == "batch_norm2d")
    return layers::batch_norm2d(entry.at("channels"),
                                {.epsilon = entry.at("epsilon"), .momentum = entry.at("momentum")});
  if (kind == "relu") return layers::relu();
  if (kind == "max_pool2d") return pool2d_of(entry, pool_kind::max);
  if (kind == "average_pool2d") return pool2d_of(entry, pool_kind::average);
  if (kind == "adaptive_average_pool2d") return layers::adaptive_average_pool2d(pair_of(entry, "output"));
  if (kind == "flatten") return layers::flatten();
  if (kind == "add") return layers::add();
  if (kind == "concat") return layers::concat();
  throw error("the fixture file has a layer of unknown kind " + kind);
}

layer_fixture layer_fixture_of(const json& entry) {
  layer_fixture result{.name = entry.at("name"), .call = {}, .expected = {}};
  result.call.op = layer_of(entry.at("layer"));
  result.call.inputs = tensors_of(entry, "inputs");
  result.call.weights = tensors_of(entry, "weights");
  result.call.states = tensors_of(entry, "states");
  result.call.fused_relu = entry.at("fused_relu");
  result.call.mode = entry.at("evaluation").get<bool>() ? phase::evaluation : phase::training;
  if (entry.contains("output_gradient")) result.call.output_gradients = {tensor_of(entry.at("output_gradient"))};
  result.expected.outputs = {tensor_of(entry.at("output"))};
  result.expected.input_gradients = tensors_of(entry, "input_gradients");
  result.expected.weight_gradients = tensors_of(entry, "weight_gradients");
  result.expected.states = tensors_of(entry, "states_after");
  return result;
}

loss_fixture loss_fixture_of(const json& entry) {
  return {.name = entry.at("name"),
          .logits = tensor_of(entry.at("logits")),
          .labels = entry.at("labels").get<std::vector<std::int64_t>>(),
          .label_smoothing = entry.at("label_smoothing"),
          .scale = entry.at("scale"),
          .loss_sum = entry.at("loss_sum"),
          .correct_top1 = entry.at("correct_top1"),
          .correct_top5 = entry.at("correct_top5"),
          .probabilities = tensor_of(entry.at("probabilities")),
          .gradient = tensor_of(entry.at("gradient"))};
}

optimizer_fixture optimizer_fixture_of(const json& entry) {
  const json& given = entry.at("options");
  optimizer_options options;
  options.name = given.at("name");
  options.momentum = given.value("momentum", options.momentum);
  options.nesterov = given.value("nesterov", false);
  options.weight_decay = given.value("weight_decay", 0.0F);
  options.beta1 = given.value("beta1", options.beta1);
  options.beta2 = given.value("beta2", options.beta2);
  options.epsilon = given.value("epsilon", options.epsilon);
  options.bias_correction = given.value("bias_correction", true);
  options.average_from = given.value("average_from", options.average_from);
  return {.name = entry.at("name"),
          .options = options,
          .learning_rate = entry.at("learning_rate"),
          .start = tensor_of(entry.at("start")),
          .gradients = tensors_of(entry, "gradients"),
          .weights = tensors_of(entry, "weights"),
          .in_use = entry.contains("in_use") ? tensors_of(entry, "in_use") : std::vector<host_tensor>{}};
}

fixture_file read() {
  std::ifstream stream(PENSTOCK_LAYER_FIXTURES);
  if (!stream) throw error(std::string("cannot read ") + PENSTOCK_LAYER_FIXTURES);
  const json document = json::parse(stream);
  fixture_file result;
  for (const json& entry : document.at("layers"))
    result.layers.push_back(layer_fixture_of(entry));
  for (const json& entry : document.at("losses"))
    result.losses.push_back(loss_fixture_of(entry));
  for (const json& entry : document.at("optimizers"))
    result.optimizers.push_back(optimizer_fixture_of(entry));
  return result;
}

} // namespace

const fixture_file& layer_fixtures() {
  static const fixture_file file = read();
  return file;
}

} // namespace penstock::testing
