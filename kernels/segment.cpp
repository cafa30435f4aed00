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

segment::segment(std::shared_ptr<const model> m, int first, int last, int frozen_until)
    : model_(std::move(m)), first_(first), last_(last), frozen_until_(frozen_until) {
  const int count = static_cast<int>(model_->layers().size());
  check(0 <= first && first < last && last <= count, "segment outside its model");
  inputs_ = model_->crossing(first_);
  outputs_ = model_->crossing(last_);
  fed_ = model_->fed(first_, last_);
  for (std::size_t i = 0; i < model_->losses().size(); ++i)
    if (const int after = model_->losses()[i].after; first_ <= after && after < last_)
      losses_.push_back(static_cast<int>(i));
  wants_gradient_.resize(model_->values().size(), false);
  for (int l = 0; l < count; ++l) {
    const auto& layer = model_->layers()[static_cast<std::size_t>(l)];
    bool wants = l >= frozen_until_ && !model_->parameters(l).empty();
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
  find_needed();
  find_kept();
}

bool segment::is_needed(value_id id, int cut, phase mode) const {
  if (mode == phase::evaluation) return model_->is_evaluated(id, cut);
  const auto& v = model_->value(id);
  const auto reads = [&](int l) { return l >= cut && needed_[static_cast<std::size_t>(l)]; };
  const auto judges = [&](int l) {
    return model_->losses()[static_cast<std::size_t>(l)].after >= std::max(cut, frozen_until_);
  };
  const auto& results = model_->results();
  return std::any_of(v.consumers.begin(), v.consumers.end(), reads) ||
         std::any_of(v.losses.begin(), v.losses.end(), judges) ||
         std::find(results.begin(), results.end(), id) != results.end();
}

// From the last layer to the first: consumers come before what they read.
void segment::find_needed() {
  needed_.assign(model_->layers().size(), true);
  for (int l = frozen_until_ - 1; l >= 0; --l) {
    const auto& outputs = model_->layers()[static_cast<std::size_t>(l)].outputs;
    needed_[static_cast<std::size_t>(l)] =
        std::any_of(outputs.begin(), outputs.end(), [&](value_id id) { return is_needed(id, 0, phase::training); });
  }
}

void segment::find_kept() {
  for (std::size_t i = 0; i < model_->values().size(); ++i) {
    const auto& v = model_->values()[i];
    const auto reads = [&](int l) { return first_active() <= l && l < last_; };
    if (v.producer < first_active() && std::any_of(v.consumers.begin(), v.consumers.end(), reads))
      kept_.push_back(static_cast<value_id>(i));
  }
}

bool segment::leaves_out(int layer, phase mode) const {
  return mode == phase::evaluation ? !model_->is_evaluated(layer) : !needed_[static_cast<std::size_t>(layer)];
}

bool segment::leaves_out(const model_loss& loss, phase mode) const {
  return mode == phase::evaluation ? !model_->is_evaluated(loss) : loss.after < frozen_until_;
}

void segment::add_names(int layer) {
  layer_call s;
  s.op = model_->layers()[static_cast<std::size_t>(layer)].op;
  s.last = layer;
  s.first_parameter = parameters_.size();
  s.first_state = states_.size();
  s.first_carried = carried_.size();
  std::size_t index = 0;
  for (auto& p : model_->parameters(layer)) {
    auto first = parameters_.size();
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].name == p.name) first = std::min(first, i);
    parameters_.push_back({p.name, layer, index++, p, first});
  }
  for (auto& st : model_->states(layer))
    states_.push_back({st.name, layer, st});
  for (auto& st : model_->carried(layer))
    carried_.push_back({st.name, layer, st});
  s.parameter_count = parameters_.size() - s.first_parameter;
  s.state_count = states_.size() - s.first_state;
  s.carried_count = carried_.size() - s.first_carried;
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
  if (outputs.size() != 1 || !model_->value(outputs.front()).losses.empty()) return -1;
  const auto& results = model_->results();
  if (std::find(results.begin(), results.end(), outputs.front()) != results.end()) return -1;
  const auto& readers = model_->value(outputs.front()).consumers;
  if (readers.size() != 1 || readers.front() >= last_) return -1;
  if (layer < frozen_until_ && readers.front() >= frozen_until_) return -1; // they compute in two ways
  const auto& reader = call_of(readers.front());
  const bool alone = model_->layers()[static_cast<std::size_t>(readers.front())].inputs.size() == 1;
  const bool is_function = reader.parameter_count == 0 && reader.state_count == 0 && reader.carried_count == 0;
  return alone && is_function ? readers.front() : -1;
}

const std::vector<value_id>& segment::results_of(int layer) const {
  return model_->layers()[static_cast<std::size_t>(call_of(layer).last)].outputs;
}

std::vector<format_ptr> segment::parameter_formats(backend& ops) const {
  std::vector<format_ptr> formats;
  for (const auto& p : parameters_) {
    const auto inputs = model_->input_specs(p.layer);
    formats.push_back(model_->layers()[static_cast<std::size_t>(p.layer)].op->parameter_format(ops, p.index, inputs));
    if (p.first_use + 1 < formats.size() && !same_format(formats[p.first_use], formats.back()))
      throw error("[layer] " + p.name + " is kept in two ways by the layers that share it");
  }
  return formats;
}

// Reads left of each value within the range; one more for a value that leaves it, so that it is never moved away.
std::vector<int> segment::uses(phase mode) const {
  std::vector<int> left(model_->values().size(), 0);
  for (int l = first_; l < last_; ++l) {
    if (calls_[static_cast<std::size_t>(l - first_)].absorbed || leaves_out(l, mode)) continue;
    for (const auto id : model_->layers()[static_cast<std::size_t>(l)].inputs)
      ++left[index_of(id)];
  }
  for (const auto id : outputs_)
    ++left[index_of(id)];
  for (const int l : losses_) {
    const auto& loss = model_->losses()[static_cast<std::size_t>(l)];
    if (leaves_out(loss, mode)) continue;
    for (const auto id : loss.inputs)
      ++left[index_of(id)];
  }
  return left;
}

run_context segment::context_for(backend& ops, const segment_call& call, int layer, std::span<tensor> states) const {
  const auto& s = calls_[static_cast<std::size_t>(layer - first_)];
  const auto& name = model_->layers()[static_cast<std::size_t>(layer)].name;
  const bool is_frozen = layer < frozen_until_;
  return run_context{.ops = ops,
                     .mode = is_frozen ? phase::evaluation : call.mode,
                     .random = {call.seed, name_hash(name), call.minibatch, call.microbatch},
                     .state = states.empty() ? states : states.subspan(s.first_state, s.state_count),
                     .update_state = call.update_state && !is_frozen,
                     .carried =
                         call.carried.empty() ? call.carried : call.carried.subspan(s.first_carried, s.carried_count),
                     .carried_out = nullptr,
                     .need_input_gradient = {},
                     .need_weight_gradient = s.parameter_count > 0,
                     .name = name,
                     .tells = call.tells};
}

void segment::judge(backend& ops, const segment_call& call, int layer, const walked_values& values,
                    segment_losses* losses) const {
  for (std::size_t i = 0; losses != nullptr && i < losses_.size(); ++i) {
    const auto& loss = model_->losses()[static_cast<std::size_t>(losses_[i])];
    if (loss.after != layer || leaves_out(loss, call.mode)) continue;
    std::vector<tensor> read;
    for (const auto id : loss.inputs)
      read.push_back(values.of[index_of(id)]);
    (*losses)[i] = loss.op->forward(ops, read, call.mode);
  }
}

void segment::run_layer(backend& ops, const segment_call& call, int l, walked_values& values,
                        std::span<const tensor> weights, std::span<tensor> states, segment_activations* keep,
                        segment_losses* losses) const {
  const auto& s = call_of(l);
  if (leaves_out(l, call.mode)) {
    if (call.carried_out != nullptr) call.carried_out->resize(call.carried_out->size() + s.carried_count);
    return;
  }
  if (s.absorbed) return judge(ops, call, l, values, losses);
  const auto begin = begin_of(ops, call);
  const auto& layer = model_->layers()[static_cast<std::size_t>(l)];
  std::vector<tensor> read;
  for (const auto id : layer.inputs) {
    auto& v = values.of[index_of(id)];
    if (--values.left[index_of(id)] == 0)
      read.push_back(std::move(v));
    else
      read.push_back(v);
  }
  auto context = context_for(ops, call, l, states);
  std::vector<tensor> handed_on;
  if (call.carried_out != nullptr && s.carried_count > 0) context.carried_out = &handed_on;
  auto result = s.op->forward(context, read, weights.subspan(s.first_parameter, s.parameter_count));
  if (context.carried_out != nullptr) {
    check(handed_on.size() == s.carried_count, "a layer handed on another number of tensors than it said");
    call.carried_out->insert(call.carried_out->end(), handed_on.begin(), handed_on.end());
  }
  const auto& ids = results_of(l);
  check(result.outputs.size() == ids.size(), "a layer returned another number of outputs than it inferred");
  look_through_results(ops, call, layer.name, *s.op, "the output", result.outputs);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (values.left[index_of(ids[i])] > 0) values.of[index_of(ids[i])] = result.outputs[i];
  judge(ops, call, l, values, losses); // its time counts to the layer
  if (call.observe)
    call.observe({.layer = l,
                  .pass = layer_pass::forward,
                  .begin = begin,
                  .end = ops.record(),
                  .outputs = result.outputs,
                  .saved = result.saved});
  result.outputs.clear();
  if (keep != nullptr && s.needs_backward) keep->saved[static_cast<std::size_t>(l - first_)] = std::move(result.saved);
}

std::vector<tensor> segment::forward(backend& ops, const segment_call& call, std::vector<tensor> arguments,
                                     std::span<const tensor> weights, std::span<tensor> states,
                                     segment_activations* keep, segment_losses* losses) const {
  check(arguments.size() == inputs_.size() + fed_.size() && weights.size() == parameters_.size() &&
            states.size() == states_.size() && (call.carried.empty() || call.carried.size() == carried_.size()),
        "segment::forward with another number of tensors");
  if (call.carried_out != nullptr) call.carried_out->clear();
  walked_values values{std::vector<tensor>(model_->values().size()), uses(call.mode)};
  for (std::size_t i = 0; i < arguments.size(); ++i)
    values.of[index_of(i < inputs_.size() ? inputs_[i] : fed_[i - inputs_.size()])] = std::move(arguments[i]);
  if (keep != nullptr) keep->saved.assign(calls_.size(), {});
  if (losses != nullptr) losses->assign(losses_.size(), {});
  for (int l = first_; l < last_; ++l) {
    if (call.kept != nullptr && l == first_active())
      for (const auto id : kept_)
        call.kept->push_back(values.of[index_of(id)]);
    run_layer(ops, call, l, values, weights, states, keep, losses);
  }
  std::vector<tensor> outputs;
  for (const auto id : outputs_)
    outputs.push_back(is_needed(id, last_, call.mode) ? values.of[index_of(id)] : tensor{});
  return outputs;
}

void segment::recompute(backend& ops, const segment_call& call, std::vector<tensor> kept,
                        std::span<const tensor> weights, std::span<tensor> states, segment_activations& keep) const {
  check(kept.size() == kept_.size(), "segment::recompute with another number of tensors");
  walked_values values{std::vector<tensor>(model_->values().size()), uses(call.mode)};
  for (std::size_t i = 0; i < kept.size(); ++i)
    values.of[index_of(kept_[i])] = std::move(kept[i]);
  keep.saved.assign(calls_.size(), {});
  for (int l = first_active(); l < last_; ++l)
    run_layer(ops, call, l, values, weights, states, &keep, nullptr);
}

// A layer with several outputs of which only some are read gets zeros for the others.
std::vector<tensor> segment::zero_missing(backend& ops, const segment_call& call, const std::vector<value_id>& ids,
                                          std::vector<tensor> gradients) const {
  auto info = call.info;
  for (const auto& g : gradients)
    if (g) info.samples = g.dim(0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (gradients[i] || !is_floating(model_->value(ids[i]).spec.type)) continue;
    gradients[i] = ops.allocate_activation(model_->spec(ids[i], info).dims);
    ops.fill(gradients[i], 0);
  }
  return gradients;
}

// Of each value, summed so far.
class segment::value_gradients {
public:
  value_gradients(backend& ops, std::size_t values) : ops_(ops), of_(values) {}
  tensor& operator[](value_id id) { return of_[index_of(id)]; }
  void add(value_id id, tensor gradient) {
    auto& sum = of_[index_of(id)];
    if (!sum)
      sum = std::move(gradient);
    else
      sum = ops_.get<elementwise_ops>().add(std::move(sum), gradient, false);
  }

private:
  backend& ops_;
  std::vector<tensor> of_;
};

// The gradients of the losses behind that layer, the last loss first. Where nothing of the minibatch counts there are
// none; where only other losses have something to count, this one's are zeros, so that every replica has the same ones.
void segment::judge_losses(backend& ops, const segment_call& call, int layer, segment_losses& losses,
                           value_gradients& gradients) const {
  for (std::size_t i = losses.size(); i-- > 0;) {
    const auto& loss = model_->losses()[static_cast<std::size_t>(losses_[i])];
    const auto count = call.info.counts[loss.count];
    if (loss.after != layer || !counts_anything(call.info)) continue;
    const auto scale = count > 0 ? loss.options.weight / static_cast<float>(count) : 0.0F;
    auto found = loss.op->backward(ops, losses[i].saved, scale);
    losses[i] = {};
    for (std::size_t n = 0; n < loss.inputs.size(); ++n)
      if (wants_gradient_[index_of(loss.inputs[n])] && found.at(n)) gradients.add(loss.inputs[n], std::move(found[n]));
  }
}

/// From the last layer to the first; `run` is called for each that gets a gradient.
std::vector<tensor> segment::walk_back(backend& ops, const segment_call& call, layer_pass pass,
                                       std::vector<tensor> output_gradients, segment_activations activations,
                                       segment_losses losses, const layer_backward& run) const {
  check(output_gradients.size() == outputs_.size() && activations.saved.size() == calls_.size() &&
            (losses.empty() || losses.size() == losses_.size()),
        "a segment's backward with another number of tensors");
  value_gradients dv(ops, model_->values().size());
  for (std::size_t i = 0; i < output_gradients.size(); ++i)
    dv[outputs_[i]] = std::move(output_gradients[i]);
  for (int l = last_ - 1; l >= first_active(); --l) {
    const auto begin = begin_of(ops, call);
    judge_losses(ops, call, l, losses, dv);
    const auto& s = call_of(l);
    if (s.absorbed || !s.needs_backward) continue;
    const auto& layer = model_->layers()[static_cast<std::size_t>(l)];
    std::vector<tensor> dy;
    for (const auto id : results_of(l))
      dy.push_back(std::move(dv[id]));
    if (std::none_of(dy.begin(), dy.end(), [](const tensor& t) { return static_cast<bool>(t); })) continue;
    dy = zero_missing(ops, call, results_of(l), std::move(dy));
    auto context = context_for(ops, call, l, {});
    for (const auto id : layer.inputs)
      context.need_input_gradient.push_back(wants_gradient_[index_of(id)]);
    auto& saved = activations.saved[static_cast<std::size_t>(l - first_)];
    auto dx = run(l, context, dy, saved);
    saved.clear(); // free activations as soon as they are used
    look_through_results(ops, call, layer.name, *s.op, "an input gradient", dx);
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (context.need_input_gradient[i] && dx.at(i)) dv.add(layer.inputs[i], std::move(dx[i]));
    if (call.observe) call.observe({.layer = l, .pass = pass, .begin = begin, .end = ops.record()});
  }
  std::vector<tensor> input_gradients;
  for (const auto id : inputs_)
    input_gradients.push_back(wants_gradient_[index_of(id)] ? std::move(dv[id]) : tensor{});
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
                                      std::span<tensor> gradients, segment_losses losses) const {
  check(weights.size() == parameters_.size() && gradients.size() == parameters_.size(),
        "segment::backward with another number of tensors");
  const auto run = [&](int l, run_context& context, std::vector<tensor>& dy, std::span<const tensor> saved) {
    const auto& s = call_of(l);
    auto result = s.op->backward(context, dy, weights.subspan(s.first_parameter, s.parameter_count), saved);
    add_gradients(ops, l, std::move(result.weight_gradients), gradients);
    return std::move(result.input_gradients);
  };
  return walk_back(ops, call, layer_pass::backward, std::move(output_gradients), std::move(activations),
                   std::move(losses), run);
}

std::vector<tensor> segment::backward_input(backend& ops, const segment_call& call,
                                            std::vector<tensor> output_gradients, std::span<const tensor> weights,
                                            segment_activations activations, segment_weight_work& work,
                                            segment_losses losses) const {
  check(weights.size() == parameters_.size(), "segment::backward_input with another number of weights");
  work.layers.clear();
  const auto run = [&](int l, run_context& context, std::vector<tensor>& dy, std::span<const tensor> saved) {
    const auto& s = call_of(l);
    auto result = s.op->backward_input(context, dy, weights.subspan(s.first_parameter, s.parameter_count), saved);
    if (s.parameter_count > 0) work.layers.push_back({l, std::move(result.kept)});
    return std::move(result.input_gradients);
  };
  return walk_back(ops, call, layer_pass::backward_input, std::move(output_gradients), std::move(activations),
                   std::move(losses), run);
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
