// Building and asking a model graph.
#include "kernels/model.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <set>

namespace penstock {

namespace {

tensor_spec with_batch(tensor_spec spec, std::int64_t batch) {
  spec.dims.at(0) = batch;
  return spec;
}

} // namespace

std::vector<tensor_spec> model::input_specs(int layer, std::int64_t batch) const {
  std::vector<tensor_spec> specs;
  for (const auto id : layers_.at(static_cast<std::size_t>(layer)).inputs)
    specs.push_back(with_batch(value(id).spec, batch));
  return specs;
}

std::vector<parameter_spec> model::parameters(int layer) const {
  const auto& l = layers_.at(static_cast<std::size_t>(layer));
  auto specs = l.op->parameters(input_specs(layer));
  for (auto& p : specs)
    p.name = p.name.empty() ? l.name : l.name + "." + p.name;
  return specs;
}

std::vector<state_spec> model::states(int layer) const {
  const auto& l = layers_.at(static_cast<std::size_t>(layer));
  auto specs = l.op->states(input_specs(layer));
  for (auto& s : specs)
    s.name = l.name + "." + s.name;
  return specs;
}

std::int64_t model::parameter_count() const {
  std::int64_t n = 0;
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i)
    for (const auto& p : parameters(i))
      n += element_count(p.dims);
  return n;
}

std::vector<value_id> model::crossing(int cut) const {
  const int last = static_cast<int>(layers_.size());
  std::vector<value_id> ids;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto& v = values_[i];
    const bool is_output = static_cast<value_id>(i) == output_;
    const bool read_later = std::any_of(v.consumers.begin(), v.consumers.end(), [&](int c) { return c >= cut; });
    if (v.producer < cut && (read_later || (is_output && cut <= last))) ids.push_back(static_cast<value_id>(i));
  }
  return ids;
}

model::sample_need model::least_training_samples() const {
  sample_need most;
  for (int l = 0; l < static_cast<int>(layers_.size()); ++l) {
    const auto& layer = layers_[static_cast<std::size_t>(l)];
    const auto samples = layer.op->least_training_samples(input_specs(l));
    if (samples > most.samples) most = {samples, layer.name};
  }
  return most;
}

model_builder::model_builder(std::string name, shape input) {
  model_.name_ = std::move(name);
  input.insert(input.begin(), 1);
  model_.values_.push_back({"input", {dtype::f32, std::move(input)}, -1, {}});
  model_.input_ = value_id{0};
}

value_id model_builder::add(std::string name, layer_ptr op, std::vector<value_id> inputs) {
  const auto outputs = add_multi(std::move(name), std::move(op), std::move(inputs));
  check(outputs.size() == 1, "add() is for layers with one output");
  return outputs.front();
}

std::vector<value_id> model_builder::add_multi(std::string name, layer_ptr op, std::vector<value_id> inputs) {
  const auto refuse_taken = [&](const std::string& wanted) {
    const auto of_layer = [&](const model_layer& l) { return l.name == wanted; };
    const auto of_value = [&](const model_value& v) { return v.name == wanted; };
    if (std::any_of(model_.layers_.begin(), model_.layers_.end(), of_layer) ||
        std::any_of(model_.values_.begin(), model_.values_.end(), of_value))
      throw usage_error(model_.name_ + ": two layers are named '" + wanted + "'; names must be unique");
  };
  refuse_taken(name);
  const int index = static_cast<int>(model_.layers_.size());
  std::vector<tensor_spec> specs;
  for (const auto id : inputs)
    specs.push_back(spec(id));
  std::vector<tensor_spec> produced;
  try {
    produced = op->infer(specs);
  } catch (const usage_error& e) {
    throw usage_error(model_.name_ + ": " + name + ": " + e.what());
  }
  const auto output_name = [&](std::size_t i) { return produced.size() == 1 ? name : name + "." + std::to_string(i); };
  for (std::size_t i = 0; i < produced.size(); ++i)
    refuse_taken(output_name(i)); // messages go by these names
  for (const auto id : inputs)
    model_.values_.at(static_cast<std::size_t>(id)).consumers.push_back(index);
  std::vector<value_id> outputs;
  for (std::size_t i = 0; i < produced.size(); ++i) {
    outputs.push_back(static_cast<value_id>(model_.values_.size()));
    model_.values_.push_back({output_name(i), produced[i], index, {}});
  }
  model_.layers_.push_back({std::move(name), std::move(op), std::move(inputs), outputs});
  return outputs;
}

model model_builder::build(value_id output) {
  const auto& out = model_.value(output);
  if (out.spec.dims.size() != 2)
    throw usage_error(model_.name_ + ": the output " + out.name + " has shape " + to_string(out.spec.dims) +
                      "; a classifier's output is [N, classes]");
  std::set<std::string> names;
  for (int i = 0; i < static_cast<int>(model_.layers_.size()); ++i) {
    for (const auto& p : model_.parameters(i))
      if (!names.insert(p.name).second) throw usage_error(model_.name_ + ": two parameters are named '" + p.name + "'");
    for (const auto& s : model_.states(i)) // they lie beside the parameters in one file
      if (!names.insert(s.name).second)
        throw usage_error(model_.name_ + ": two parameters or states are named '" + s.name + "'");
  }
  model_.output_ = output;
  model_.classes_ = out.spec.dims[1];
  return std::move(model_);
}

} // namespace penstock
