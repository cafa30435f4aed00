// Building a model graph, and what is refused of it.
#include "kernels/model_builder.hpp"

#include "kernels/check.hpp"
#include "kernels/loss_metrics.hpp"
#include "kernels/losses/cross_entropy.hpp"
#include "kernels/shapes_by_extent.hpp"
#include "kernels/text.hpp"

#include <algorithm>
#include <set>

namespace penstock {

model_builder::model_builder(std::string name) {
  model_.name_ = std::move(name);
}

model_builder::model_builder(std::string name, shape input) : model_builder(std::move(name)) {
  this->input("input", dtype::f32, {input.begin(), input.end()});
}

void model_builder::refuse_taken(const std::string& wanted) const {
  const auto is_taken = [&](const auto& all) {
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.name == wanted; });
  };
  if (is_taken(model_.layers_) || is_taken(model_.values_) || is_taken(model_.losses_))
    throw usage_error(model_.name_ + ": two layers are named '" + wanted + "'; names must be unique");
}

extent_id model_builder::extent(std::string name, std::int64_t nominal, std::int64_t most) {
  check(model_.extents_.size() < most_extents, "a model with too many extents");
  if (nominal < 1 || (most > 0 && nominal > most))
    throw usage_error(model_.name_ + ": " + name + " is " + std::to_string(nominal) + ", wanted at least 1" +
                      (most > 0 ? " and at most " + std::to_string(most) : ""));
  if (!model_.shapes_) model_.shapes_ = std::make_shared<shapes_by_extent>();
  model_.extents_.push_back({std::move(name), nominal, most});
  return static_cast<extent_id>(model_.extents_.size() - 1);
}

value_id model_builder::input(std::string name, dtype type, const std::vector<input_axis>& axes,
                              input_options options) {
  refuse_taken(name);
  shape dims{1};
  model_input made{.below = options.below, .length_of = options.length_of};
  for (const auto& a : axes) {
    dims.push_back(a.extent ? model_.extents_.at(static_cast<std::size_t>(*a.extent)).nominal : a.size);
    made.extents.push_back(a.extent);
  }
  made.value = static_cast<value_id>(model_.values_.size());
  model_.values_.push_back({std::move(name), {type, std::move(dims)}, -1, {}, {}});
  model_.inputs_.push_back(std::move(made));
  return model_.inputs_.back().value;
}

value_id model_builder::add(std::string name, layer_ptr op, std::vector<value_id> inputs, const parameter_ties& tied) {
  const auto outputs = add_multi(std::move(name), std::move(op), std::move(inputs), tied);
  check(outputs.size() == 1, "add() is for layers with one output");
  return outputs.front();
}

std::vector<value_id> model_builder::add_multi(std::string name, layer_ptr op, std::vector<value_id> inputs,
                                               const parameter_ties& tied) {
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
    model_.values_.push_back({output_name(i), produced[i], index, {}, {}});
  }
  model_.layers_.push_back({std::move(name), std::move(op), std::move(inputs), outputs});
  for (const auto& [parameter, target] : tied)
    wishes_.push_back({index, parameter, target});
  return outputs;
}

parameter_ties model_builder::ties_of(const model& m, int layer) {
  parameter_ties tied;
  const auto& l = m.layers().at(static_cast<std::size_t>(layer));
  const auto own = l.op->parameters(m.input_specs(layer));
  for (const auto& tie : m.ties())
    for (const auto& use : tie.uses)
      if (use.layer == layer && layer != tie.owner.layer) tied[own.at(use.parameter).name] = tie.name;
  return tied;
}

// Owners may stand behind those that share with them, where layers were put in another order.
void model_builder::resolve_ties() {
  const auto place_of = [&](int layer, const auto& is_it) {
    const auto specs = model_.own_parameters(layer);
    return static_cast<std::size_t>(std::find_if(specs.begin(), specs.end(), is_it) - specs.begin());
  };
  const int layers = static_cast<int>(model_.layers_.size());
  for (const auto& w : wishes_) {
    const auto& layer = model_.layers_[static_cast<std::size_t>(w.layer)].name;
    const auto full = w.parameter.empty() ? layer : layer + "." + w.parameter;
    const auto mine = place_of(w.layer, [&](const auto& p) { return p.name == full; });
    auto tie =
        std::find_if(model_.ties_.begin(), model_.ties_.end(), [&](const auto& t) { return t.name == w.target; });
    if (tie == model_.ties_.end()) {
      for (int l = 0; l < layers && tie == model_.ties_.end(); ++l) {
        const auto owner = place_of(l, [&](const auto& p) { return p.name == w.target; });
        if (l == w.layer || owner == model_.own_parameters(l).size()) continue;
        model_.ties_.push_back({w.target, {l, owner}, {{l, owner}}});
        tie = model_.ties_.end() - 1;
      }
      if (tie == model_.ties_.end())
        throw usage_error(model_.name_ + ": " + full + " is tied to '" + w.target + "', which no layer has");
    }
    const auto specs = model_.own_parameters(w.layer);
    const auto owner = model_.own_parameters(tie->owner.layer).at(tie->owner.parameter);
    if (mine == specs.size() || specs[mine].dims != owner.dims)
      throw usage_error(model_.name_ + ": " + full + " is tied to " + w.target + " of shape " + to_string(owner.dims) +
                        (mine == specs.size() ? ", and is no parameter" : ", and has " + to_string(specs[mine].dims)));
    tie->uses.push_back({w.layer, mine});
    model_.aliases_[full] = w.target;
  }
  for (auto& tie : model_.ties_)
    std::sort(tie.uses.begin(), tie.uses.end(), [](const auto& a, const auto& b) { return a.layer < b.layer; });
}

void model_builder::loss(std::string name, loss_ptr op, std::vector<value_id> inputs, loss_options options) {
  refuse_taken(name);
  std::vector<tensor_spec> specs;
  model_loss made{.name = name, .op = std::move(op), .inputs = inputs, .options = std::move(options), .after = -1};
  for (const auto id : inputs) {
    specs.push_back(spec(id));
    made.after = std::max(made.after, model_.value(id).producer);
  }
  if (made.after < 0) throw usage_error(model_.name_ + ": " + name + " reads no layer's output");
  try {
    made.op->expect(specs);
  } catch (const usage_error& e) {
    throw usage_error(model_.name_ + ": " + name + ": " + e.what());
  }
  auto& counts = model_.counts_;
  const auto known = std::find(counts.begin(), counts.end(), made.options.counted_by);
  made.count = static_cast<std::size_t>(known - counts.begin());
  if (known == counts.end()) counts.push_back(made.options.counted_by);
  check(counts.size() <= most_counts, "a model whose losses are divided by too many counts");
  const auto index = static_cast<int>(model_.losses_.size());
  for (const auto id : inputs)
    model_.values_.at(static_cast<std::size_t>(id)).losses.push_back(index);
  model_.losses_.push_back(std::move(made));
}

void model_builder::check_names() const {
  std::set<std::string> names;
  for (int i = 0; i < static_cast<int>(model_.layers_.size()); ++i) {
    for (const auto& p : model_.own_parameters(i))
      if (!names.insert(p.name).second) throw usage_error(model_.name_ + ": two parameters are named '" + p.name + "'");
    for (const auto& s : model_.states(i)) // they lie beside the parameters in one file
      if (!names.insert(s.name).second)
        throw usage_error(model_.name_ + ": two parameters or states are named '" + s.name + "'");
    for (const auto& s : model_.carried(i))
      if (!names.insert(s.name).second)
        throw usage_error(model_.name_ + ": two parameters or states are named '" + s.name + "'");
  }
}

void model_builder::name_sums() {
  for (auto& l : model_.losses_) {
    l.first_sum = model_.sums_.size();
    for (const auto& s : l.op->sums())
      model_.sums_.push_back(model_.losses_.size() == 1 ? s : l.name + "." + s);
  }
  check(model_.sums_.size() <= most_sums, "a model whose losses have too many sums");
}

model model_builder::build() {
  if (model_.losses_.empty() && model_.results_.empty())
    throw usage_error(model_.name_ + ": has neither a loss nor a result");
  check_names();
  resolve_ties();
  name_sums();
  model_.find_evaluated();
  model_.output_ = model_.losses_.empty() ? model_.results_.front() : model_.losses_.front().inputs.front();
  return std::move(model_);
}

model model_builder::build(value_id logits) {
  const auto& out = model_.value(logits);
  if (out.spec.dims.size() != 2)
    throw usage_error(model_.name_ + ": the output " + out.name + " has shape " + to_string(out.spec.dims) +
                      "; a classifier's output is [N, classes]");
  const auto labels = input("labels", dtype::i64, {}, {.below = out.spec.dims[1]});
  loss("loss", losses::cross_entropy(), {logits, labels});
  return build();
}

model model_builder::build_inference(value_id result) {
  this->result(result);
  return build();
}

model_builder model_builder::like(const model& m, std::vector<std::optional<value_id>>& made) {
  model_builder b(m.name());
  for (const auto& e : m.extents())
    b.extent(e.name, e.nominal, e.most);
  made.assign(m.values().size(), {});
  for (const auto& given : m.inputs())
    if (!m.value(given.value).consumers.empty()) made[static_cast<std::size_t>(given.value)] = b.input_like(m, given);
  return b;
}

value_id model_builder::input_like(const model& m, const model_input& given) {
  const auto& v = m.value(given.value);
  std::vector<input_axis> axes;
  for (std::size_t a = 0; a < given.extents.size(); ++a)
    axes.push_back(given.extents[a] ? input_axis(*given.extents[a]) : input_axis(v.spec.dims[a + 1]));
  return input(v.name, v.spec.type, axes, {.below = given.below, .length_of = given.length_of});
}

// Inputs that only losses read come last, as a classifier's labels do.
model model_builder::build_like(const model& m, std::vector<std::optional<value_id>> made) {
  for (const auto& given : m.inputs())
    if (auto& mine = made.at(static_cast<std::size_t>(given.value)); !mine) mine = input_like(m, given);
  const auto mine = [&](value_id id) { return made.at(static_cast<std::size_t>(id)).value(); };
  for (const auto& l : m.losses()) {
    std::vector<value_id> inputs;
    for (const auto id : l.inputs)
      inputs.push_back(mine(id));
    loss(l.name, l.op, std::move(inputs), l.options);
  }
  for (const auto id : m.results())
    result(mine(id));
  model_.kept_together_ = m.kept_together();
  for (const auto& [alias, parameter] : m.aliases())
    also_named(alias, parameter);
  // A unit begins where its first layer stands now.
  for (const int unit : m.freeze_units())
    for (std::size_t l = 0; l < model_.layers_.size(); ++l)
      if (model_.layers_[l].name == m.layers()[static_cast<std::size_t>(unit)].name)
        model_.freeze_units_.push_back(static_cast<int>(l));
  std::sort(model_.freeze_units_.begin(), model_.freeze_units_.end());
  return build();
}

} // namespace penstock
