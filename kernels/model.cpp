// Asking a model graph.
#include "kernels/model.hpp"

#include "kernels/check.hpp"
#include "kernels/shapes_by_extent.hpp"

#include <algorithm>
#include <set>

namespace penstock {

namespace {

tensor_spec with_batch(tensor_spec spec, std::int64_t batch) {
  spec.dims.at(0) = batch;
  return spec;
}

} // namespace

tensor_spec model::spec(value_id id, const microbatch_info& of) const {
  if (!shapes_) return with_batch(value(id).spec, of.samples);
  const auto specs = shapes_->of(*this, of.extents);
  return with_batch(specs->at(static_cast<std::size_t>(id)), of.samples);
}

std::vector<tensor_spec> model::input_specs(int layer, std::int64_t batch) const {
  std::vector<tensor_spec> specs;
  for (const auto id : layers_.at(static_cast<std::size_t>(layer)).inputs)
    specs.push_back(with_batch(value(id).spec, batch));
  return specs;
}

std::vector<parameter_spec> model::own_parameters(int layer) const {
  const auto& l = layers_.at(static_cast<std::size_t>(layer));
  auto specs = l.op->parameters(input_specs(layer));
  for (auto& p : specs)
    p.name = p.name.empty() ? l.name : l.name + "." + p.name;
  return specs;
}

std::vector<parameter_spec> model::parameters(int layer) const {
  auto specs = own_parameters(layer);
  for (const auto& tie : ties_)
    for (const auto& use : tie.uses)
      if (use.layer == layer && layer != tie.owner.layer)
        specs.at(use.parameter) = own_parameters(tie.owner.layer).at(tie.owner.parameter);
  return specs;
}

std::vector<state_spec> model::states(int layer) const {
  const auto& l = layers_.at(static_cast<std::size_t>(layer));
  auto specs = l.op->states(input_specs(layer));
  for (auto& s : specs)
    s.name = l.name + "." + s.name;
  return specs;
}

std::vector<state_spec> model::carried(int layer) const {
  const auto& l = layers_.at(static_cast<std::size_t>(layer));
  auto specs = l.op->carried(input_specs(layer));
  for (auto& s : specs)
    s.name = l.name + "." + s.name;
  return specs;
}

bool model::carries() const {
  for (int l = 0; l < static_cast<int>(layers_.size()); ++l)
    if (!carried(l).empty()) return true;
  return false;
}

std::int64_t model::parameter_count(int first, int last) const {
  std::set<std::string> counted;
  std::int64_t n = 0;
  for (int l = first; l < last; ++l)
    for (const auto& p : parameters(l))
      if (counted.insert(p.name).second) n += element_count(p.dims);
  return n;
}

std::vector<value_id> model::crossing(int cut) const {
  const int end = static_cast<int>(layers_.size());
  std::vector<value_id> ids;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto& v = values_[i];
    const auto id = static_cast<value_id>(i);
    if (v.producer < 0 || v.producer >= cut) continue;
    const bool is_result = cut <= end && std::find(results_.begin(), results_.end(), id) != results_.end();
    const bool read_later = std::any_of(v.consumers.begin(), v.consumers.end(), [&](int c) { return c >= cut; });
    const bool judged_later = std::any_of(v.losses.begin(), v.losses.end(),
                                          [&](int l) { return losses_[static_cast<std::size_t>(l)].after >= cut; });
    if (is_result || read_later || judged_later) ids.push_back(id);
  }
  return ids;
}

std::vector<value_id> model::fed(int first, int last) const {
  const auto within = [&](int layer) { return first <= layer && layer < last; };
  std::vector<value_id> ids;
  for (const auto& input : inputs_) {
    const auto& v = value(input.value);
    const bool is_read = std::any_of(v.consumers.begin(), v.consumers.end(), within);
    const bool is_judged = std::any_of(v.losses.begin(), v.losses.end(),
                                       [&](int l) { return within(losses_[static_cast<std::size_t>(l)].after); });
    if (is_read || is_judged) ids.push_back(input.value);
  }
  return ids;
}

bool model::is_evaluated(value_id id, int cut) const {
  const auto& v = value(id);
  return std::any_of(v.consumers.begin(), v.consumers.end(), [&](int l) { return l >= cut && is_evaluated(l); }) ||
         std::any_of(v.losses.begin(), v.losses.end(),
                     [&](int l) {
                       const auto& loss = losses_[static_cast<std::size_t>(l)];
                       return loss.after >= cut && is_evaluated(loss);
                     }) ||
         std::find(results_.begin(), results_.end(), id) != results_.end();
}

// From the last layer to the first: consumers come before what they read.
void model::find_evaluated() {
  evaluated_.assign(layers_.size(), false);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const auto& outputs = layers_[l].outputs;
    evaluated_[l] = std::any_of(outputs.begin(), outputs.end(), [&](value_id id) { return is_evaluated(id, 0); });
  }
}

const parameter_tie* model::tie_across(int layer) const {
  const auto lies_across = [layer](const parameter_tie& tie) {
    return tie.uses.front().layer < layer && tie.uses.back().layer >= layer;
  };
  const auto found = std::find_if(ties_.begin(), ties_.end(), lies_across);
  return found == ties_.end() ? nullptr : &*found;
}

bool model::counts_anything(const microbatch_info& of, int first_layer) const {
  return std::any_of(losses_.begin(), losses_.end(),
                     [&](const model_loss& l) { return l.after >= first_layer && of.counts[l.count] > 0; });
}

model::sample_need model::least_training_samples(int first_layer) const {
  sample_need most;
  for (int l = first_layer; l < static_cast<int>(layers_.size()); ++l) {
    const auto& layer = layers_[static_cast<std::size_t>(l)];
    const auto samples = layer.op->least_training_samples(input_specs(l));
    if (samples > most.samples) most = {samples, layer.name};
  }
  return most;
}

model model::smoothed(float label_smoothing) const {
  auto copy = *this;
  bool any = false;
  for (auto& l : copy.losses_)
    if (auto op = l.op->smoothed(label_smoothing)) {
      l.op = std::move(op);
      any = true;
    }
  if (!any) throw usage_error("label smoothing: no loss of " + name_ + " has labels to smooth");
  return copy;
}

} // namespace penstock
