// Walks a range of layers forward and backward.
#include "kernels/segment.hpp"

#include "kernels/check.hpp"
#include "kernels/finite.hpp"
#include "kernels/ops/elementwise_ops.hpp"

#include <algorithm>

namespace penstock {

namespace {

std::size_t index_of(value_id id) {
  return static_cast<std::size_t>(id);
}

// Where a layer's call begins, for those who watch.
event_ptr begin_of(backend& ops, const segment_call& call) {
  return call.observe ? ops.record() : nullptr;
}

// A gradient that later ones are added to must share its bytes with nothing that a layer still hands out elsewhere.
tensor unshared(backend& ops, tensor gradient) {
  if (!gradient || gradient.is_unique()) return gradient;
  auto copy = ops.allocate(gradient.type(), gradient.dims(), memory_use::gradients, gradient.format());
  ops.fill(copy, 0);
  ops.get<elementwise_ops>().accumulate(copy, gradient);
  return copy;
}

void look_through_results(backend& ops, const segment_call& call, const std::string& name, const layer& op,
                          const std::string& what, std::span<const tensor> results) {
  if (call.tells == nullptr || op.keeps_finite()) return;
  const auto where =
      call.mode == phase::training ? " in minibatch " + std::to_string(call.minibatch) : " in an evaluation";
  for (const auto& t : results)
    if (t)
      call.tells->expect(
          ops.get<elementwise_ops>().find_nonfinite(t),
          [dims = t.dims(), message = "[layer] " + what + " of " + name + " (" + std::string(op.kind()) + ")" +
                                      where](const tensor& found) { require_none_found(found, dims, message); });
}

} // namespace

std::uint64_t name_hash(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const unsigned char c : name)
    h = (h ^ c) * 0x100000001b3ULL;
  return h;
}

segment::segment(std::shared_ptr<const model> m, int first, int last)
    : model_(std::move(m)), first_(first), last_(last) {
  const int count = static_cast<int>(model_->layers().size());
  check(0 <= first && first < last && last <= count, "segment outside its model");
  inputs_ = model_->crossing(first_);
  outputs_ = model_->crossing(last_);
  wants_gradient_.resize(model_->values().size(), false);
  for (int l = 0; l < count; ++l) {
    const auto& layer = model_->layers()[static_cast<std::size_t>(l)];
    bool wants = !model_->parameters(l).empty();
    for (const auto id : layer.inputs)
      wants = wants || wants_gradient_[index_of(id)];
    for (const auto id : layer.outputs)
      wants_gradient_[index_of(id)] = wants && is_floating(model_->value(id).spec.type);
    if (first_ <= l && l < last_) {
      add_names(l);
      calls_.back().needs_backward = wants;
    }
  }
  fuse();
}

void segment::add_names(int layer) {
  layer_call s;
  s.op = model_->layers()[static_cast<std::size_t>(layer)].op;
  s.last = layer;
  s.first_parameter = parameters_.size();
  s.first_state = states_.size();
  std::size_t index = 0;
  for (auto& p : model_->parameters(layer))
    parameters_.push_back({p.name, layer, index++, p});
  for (auto& st : model_->states(layer))
    states_.push_back({st.name, layer, st});
  s.parameter_count = parameters_.size() - s.first_parameter;
  s.state_count = states_.size() - s.first_state;
  calls_.push_back(s);
}

// A layer is computed within its producer when it is the only reader of that, reads nothing else and the producer can.
// All must lie in this range, so a cut between them undoes the fusion, which changes no bit (DESIGN section 3).
void segment::fuse() {
  for (int l = first_; l < last_; ++l) {
    auto& call = calls_[static_cast<std::size_t>(l - first_)];
    if (call.absorbed) continue;
    for (int reader = only_reader(call.last); reader >= 0; reader = only_reader(call.last)) {
      layer_ptr fused = call.op->try_fuse(*model_->layers()[static_cast<std::size_t>(reader)].op);
      if (fused == nullptr) break;
      call.op = std::move(fused);
      call.last = reader;
      calls_[static_cast<std::size_t>(reader - first_)].absorbed = true;
    }
  }
}

// The layer of this range that alone reads what that one makes, and is nothing but a function of it; -1: none.
int segment::only_reader(int layer) const {
  const auto& outputs = model_->layers()[static_cast<std::size_t>(layer)].outputs;
  if (outputs.size() != 1 || outputs.front() == model_->output()) return -1;
  const auto& readers = model_->value(outputs.front()).consumers;
  if (readers.size() != 1 || readers.front() >= last_) return -1;
  const auto& reader = call_of(readers.front());
  const bool alone = model_->layers()[static_cast<std::size_t>(readers.front())].inputs.size() == 1;
  return alone && reader.parameter_count == 0 && reader.state_count == 0 ? readers.front() : -1;
}

const std::vector<value_id>& segment::results_of(int layer) const {
  return model_->layers()[static_cast<std::size_t>(call_of(layer).last)].outputs;
}

std::vector<format_ptr> segment::parameter_formats(backend& ops) const {
  std::vector<format_ptr> formats;
  for (const auto& p : parameters_) {
    const auto inputs = model_->input_specs(p.layer);
    formats.push_back(model_->layers()[static_cast<std::size_t>(p.layer)].op->parameter_format(ops, p.index, inputs));
  }
  return formats;
}

// Reads left of each value within the range; one more for a value that leaves it, so that it is never moved away.
std::vector<int> segment::uses() const {
  std::vector<int> left(model_->values().size(), 0);
  for (int l = first_; l < last_; ++l) {
    if (calls_[static_cast<std::size_t>(l - first_)].absorbed) continue;
    for (const auto id : model_->layers()[static_cast<std::size_t>(l)].inputs)
      ++left[index_of(id)];
  }
  for (const auto id : outputs_)
    ++left[index_of(id)];
  return left;
}

run_context segment::context_for(backend& ops, const segment_call& call, int layer, std::span<tensor> states) const {
  const auto& s = calls_[static_cast<std::size_t>(layer - first_)];
  const auto& name = model_->layers()[static_cast<std::size_t>(layer)].name;
  return run_context{.ops = ops,
                     .mode = call.mode,
                     .random = {call.seed, name_hash(name), call.minibatch, call.microbatch},
                     .state = states.empty() ? states : states.subspan(s.first_state, s.state_count),
                     .update_state = call.update_state,
                     .need_input_gradient = {},
                     .need_weight_gradient = s.parameter_count > 0,
                     .name = name,
                     .tells = call.tells};
}

std::vector<tensor> segment::forward(backend& ops, const segment_call& call, std::vector<tensor> inputs,
                                     std::span<const tensor> weights, std::span<tensor> states,
                                     segment_activations* keep) const {
  check(inputs.size() == inputs_.size() && weights.size() == parameters_.size() && states.size() == states_.size(),
        "segment::forward with another number of tensors");
  std::vector<tensor> values(model_->values().size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values[index_of(inputs_[i])] = std::move(inputs[i]);
  auto left = uses();
  if (keep != nullptr) keep->saved.assign(calls_.size(), {});
  for (int l = first_; l < last_; ++l) {
    const auto& s = calls_[static_cast<std::size_t>(l - first_)];
    if (s.absorbed) continue;
    const auto begin = begin_of(ops, call);
    const auto& layer = model_->layers()[static_cast<std::size_t>(l)];
    std::vector<tensor> arguments;
    for (const auto id : layer.inputs) {
      auto& v = values[index_of(id)];
      if (--left[index_of(id)] == 0)
        arguments.push_back(std::move(v));
      else
        arguments.push_back(v);
    }
    auto context = context_for(ops, call, l, states);
    auto result = s.op->forward(context, arguments, weights.subspan(s.first_parameter, s.parameter_count));
    const auto& ids = results_of(l);
    check(result.outputs.size() == ids.size(), "a layer returned another number of outputs than it inferred");
    look_through_results(ops, call, layer.name, *s.op, "the output", result.outputs);
    if (call.observe)
      call.observe({.layer = l,
                    .pass = layer_pass::forward,
                    .begin = begin,
                    .end = ops.record(),
                    .outputs = result.outputs,
                    .saved = result.saved});
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (left[index_of(ids[i])] > 0) values[index_of(ids[i])] = std::move(result.outputs[i]);
    if (keep != nullptr && s.needs_backward)
      keep->saved[static_cast<std::size_t>(l - first_)] = std::move(result.saved);
  }
  std::vector<tensor> outputs;
  for (const auto id : outputs_)
    outputs.push_back(values[index_of(id)]);
  return outputs;
}

// A layer with several outputs of which only some are read gets zeros for the others.
std::vector<tensor> segment::zero_missing(backend& ops, const std::vector<value_id>& ids, std::vector<tensor> gradients,
                                          std::int64_t batch) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto& spec = model_->value(ids[i]).spec;
    if (gradients[i] || !is_floating(spec.type)) continue;
    auto dims = spec.dims;
    dims[0] = batch;
    gradients[i] = ops.allocate_activation(dims);
    ops.fill(gradients[i], 0);
  }
  return gradients;
}

/// From the last layer to the first; `run` is called for each that gets a gradient.
std::vector<tensor> segment::walk_back(backend& ops, const segment_call& call, layer_pass pass,
                                       std::vector<tensor> output_gradients, segment_activations activations,
                                       const layer_backward& run) const {
  check(output_gradients.size() == outputs_.size() && activations.saved.size() == calls_.size(),
        "a segment's backward with another number of tensors");
  std::vector<tensor> dv(model_->values().size()); // gradient of each value, summed so far
  std::int64_t batch = 0;
  for (std::size_t i = 0; i < output_gradients.size(); ++i) {
    if (output_gradients[i]) batch = output_gradients[i].dim(0);
    dv[index_of(outputs_[i])] = std::move(output_gradients[i]);
  }
  const auto add = [&](value_id id, tensor g) {
    auto& sum = dv[index_of(id)];
    if (!sum)
      sum = std::move(g);
    else
      sum = ops.get<elementwise_ops>().add(std::move(sum), g, false);
  };
  for (int l = last_ - 1; l >= first_; --l) {
    const auto& s = call_of(l);
    if (s.absorbed || !s.needs_backward) continue;
    const auto begin = begin_of(ops, call);
    const auto& layer = model_->layers()[static_cast<std::size_t>(l)];
    std::vector<tensor> dy;
    for (const auto id : results_of(l))
      dy.push_back(std::move(dv[index_of(id)]));
    if (std::none_of(dy.begin(), dy.end(), [](const tensor& t) { return static_cast<bool>(t); })) continue;
    dy = zero_missing(ops, results_of(l), std::move(dy), batch);
    auto context = context_for(ops, call, l, {});
    for (const auto id : layer.inputs)
      context.need_input_gradient.push_back(wants_gradient_[index_of(id)]);
    auto& saved = activations.saved[static_cast<std::size_t>(l - first_)];
    auto dx = run(l, context, dy, saved);
    saved.clear(); // free activations as soon as they are used
    look_through_results(ops, call, layer.name, *s.op, "an input gradient", dx);
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (context.need_input_gradient[i] && dx.at(i)) add(layer.inputs[i], std::move(dx[i]));
    if (call.observe) call.observe({.layer = l, .pass = pass, .begin = begin, .end = ops.record()});
  }
  std::vector<tensor> input_gradients;
  for (const auto id : inputs_)
    input_gradients.push_back(wants_gradient_[index_of(id)] ? std::move(dv[index_of(id)]) : tensor{});
  return input_gradients;
}

void segment::add_gradients(backend& ops, int layer, std::vector<tensor> found, std::span<tensor> gradients) const {
  const auto& s = call_of(layer);
  for (std::size_t i = 0; i < s.parameter_count; ++i) {
    auto& sum = gradients[s.first_parameter + i];
    auto& g = found.at(i);
    if (!sum)
      sum = unshared(ops, std::move(g));
    else if (g)
      ops.get<elementwise_ops>().accumulate(sum, g);
  }
}

std::vector<tensor> segment::backward(backend& ops, const segment_call& call, std::vector<tensor> output_gradients,
                                      std::span<const tensor> weights, segment_activations activations,
                                      std::span<tensor> gradients) const {
  check(weights.size() == parameters_.size() && gradients.size() == parameters_.size(),
        "segment::backward with another number of tensors");
  const auto run = [&](int l, run_context& context, std::vector<tensor>& dy, std::span<const tensor> saved) {
    const auto& s = call_of(l);
    auto result = s.op->backward(context, dy, weights.subspan(s.first_parameter, s.parameter_count), saved);
    add_gradients(ops, l, std::move(result.weight_gradients), gradients);
    return std::move(result.input_gradients);
  };
  return walk_back(ops, call, layer_pass::backward, std::move(output_gradients), std::move(activations), run);
}

std::vector<tensor> segment::backward_input(backend& ops, const segment_call& call,
                                            std::vector<tensor> output_gradients, std::span<const tensor> weights,
                                            segment_activations activations, segment_weight_work& work) const {
  check(weights.size() == parameters_.size(), "segment::backward_input with another number of weights");
  work.layers.clear();
  const auto run = [&](int l, run_context& context, std::vector<tensor>& dy, std::span<const tensor> saved) {
    const auto& s = call_of(l);
    auto result = s.op->backward_input(context, dy, weights.subspan(s.first_parameter, s.parameter_count), saved);
    if (s.parameter_count > 0) work.layers.push_back({l, std::move(result.kept)});
    return std::move(result.input_gradients);
  };
  return walk_back(ops, call, layer_pass::backward_input, std::move(output_gradients), std::move(activations), run);
}

void segment::backward_weight(backend& ops, const segment_call& call, std::span<const tensor> weights,
                              segment_weight_work work, std::span<tensor> gradients) const {
  check(weights.size() == parameters_.size() && gradients.size() == parameters_.size(),
        "segment::backward_weight with another number of tensors");
  for (auto& [l, kept] : work.layers) {
    const auto begin = begin_of(ops, call);
    const auto& s = call_of(l);
    auto context = context_for(ops, call, l, {});
    auto found = s.op->backward_weight(context, weights.subspan(s.first_parameter, s.parameter_count), kept);
    kept.clear(); // free what was kept as soon as it is used
    add_gradients(ops, l, std::move(found), gradients);
    if (call.observe)
      call.observe({.layer = l, .pass = layer_pass::backward_weight, .begin = begin, .end = ops.record()});
  }
}

} // namespace penstock
