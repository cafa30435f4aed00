// Forward, backward and update of a stage.
#include "actors/stage/stage_compute.hpp"

#include "kernels/check.hpp"
#include "kernels/finite.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"

#include <cstring>

namespace penstock::actors {

namespace {

segment_call training_call(const pipeline& p, const microbatch_id& id, const replica_unit& r) {
  return {.seed = id.seed,
          .minibatch = id.minibatch,
          .microbatch = id.microbatch,
          .require_finite = p.require_finite,
          .observe = r.observe};
}

// The source sends plain images; between layers rank-4 tensors have the device's own layout.
void adopt_layout(backend& ops, std::vector<tensor>& inputs) {
  for (auto& t : inputs)
    if (t && t.rank() == 4 && t.type() == dtype::f32)
      t = ops.reorder(t, ops.activation_format(t.dims()), memory_use::activations);
}

// A layer actor is its writer's, as a layer may be.
void require_finite_messages(backend& ops, const pipeline& p, const stage_unit& s, const char* what,
                             const std::vector<value_id>& ids, const std::vector<tensor>& tensors) {
  if (!p.require_finite) return;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!is_finite(tensors[i]))
      require_finite(ops.to_plain(tensors[i]), "[message] " + std::string(what) + " of " + p.net->value(ids[i]).name +
                                                   " from the layer actor beside stage " + std::to_string(s.index));
}

void recompute(backend& ops, const pipeline& p, const stage_unit& s, const replica_unit& r, std::span<tensor> states,
               microbatch_record& record) {
  auto call = training_call(p, record.id, r);
  call.update_state = false; // it was, by the forward
  s.layers->forward(ops, call, std::move(record.inputs), record.weights->tensors, states, &record.activations);
}

} // namespace

stage_forward compute_forward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                              std::span<tensor> states, std::vector<tensor> inputs, const tensor& labels,
                              microbatch_record& record) {
  stage_forward result;
  if (record.id.samples == 0) {
    result.outputs.resize(s.layers->outputs().size());
    return result;
  }
  const compute_times::watch timing(r.times.forward);
  if (s.after_layer_actor) require_finite_messages(ops, p, s, "the activation", s.layers->inputs(), inputs);
  if (s.is_first) adopt_layout(ops, inputs);
  if (s.recomputes) record.inputs = inputs; // a second handle: no layer may write into them
  auto outputs = s.layers->forward(ops, training_call(p, record.id, r), std::move(inputs), record.weights->tensors,
                                   states, s.recomputes ? nullptr : &record.activations);
  if (s.is_last) {
    record.loss = p.loss.forward(ops, outputs.front(), labels);
    result.metrics = record.loss.metrics;
  } else {
    result.outputs = std::move(outputs);
  }
  return result;
}

namespace {

// What a backward begins with, whole or split: the gradients of what the stage put out.
std::vector<tensor> prepare_backward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                     std::span<tensor> states, std::vector<tensor> output_gradients,
                                     microbatch_record& record) {
  if (s.before_layer_actor) require_finite_messages(ops, p, s, "the gradient", s.layers->outputs(), output_gradients);
  if (s.recomputes) recompute(ops, p, s, r, states, record);
  if (!s.is_last) return output_gradients;
  check(record.id.minibatch_samples > 0, "the loss needs the minibatch's sample count");
  const auto scale = 1.0F / static_cast<float>(record.id.minibatch_samples);
  output_gradients.clear();
  output_gradients.push_back(p.loss.backward(ops, record.loss, scale));
  record.loss = {};
  return output_gradients;
}

segment_call telling_call(const pipeline& p, const microbatch_record& record, replica_unit& r,
                          const std::function<void(int)>& layer_done) {
  auto call = training_call(p, record.id, r);
  if (layer_done)
    call.observe = [&](const layer_observation& o) {
      if (r.observe) r.observe(o);
      layer_done(o.layer);
    };
  return call;
}

} // namespace

std::vector<tensor> compute_backward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                     std::span<tensor> states, std::vector<tensor> output_gradients,
                                     const weight_set& weights, microbatch_record& record, std::span<tensor> gradients,
                                     const std::function<void(int)>& layer_done) {
  if (record.id.samples == 0) return std::vector<tensor>(s.layers->inputs().size());
  const compute_times::watch timing(r.times.backward);
  output_gradients = prepare_backward(ops, p, s, r, states, std::move(output_gradients), record);
  return s.layers->backward(ops, telling_call(p, record, r, layer_done), std::move(output_gradients), weights.tensors,
                            std::move(record.activations), gradients);
}

std::vector<tensor> compute_backward_input(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                           std::span<tensor> states, std::vector<tensor> output_gradients,
                                           const weight_set& weights, microbatch_record& record) {
  if (record.id.samples == 0) return std::vector<tensor>(s.layers->inputs().size());
  const compute_times::watch timing(r.times.backward_input);
  output_gradients = prepare_backward(ops, p, s, r, states, std::move(output_gradients), record);
  return s.layers->backward_input(ops, training_call(p, record.id, r), std::move(output_gradients), weights.tensors,
                                  std::move(record.activations), record.weight_work);
}

void compute_backward_weight(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                             const weight_set& weights, microbatch_record& record, std::span<tensor> gradients,
                             const std::function<void(int)>& layer_done) {
  if (record.id.samples == 0) return;
  const compute_times::watch timing(r.times.backward_weight);
  s.layers->backward_weight(ops, telling_call(p, record, r, layer_done), weights.tensors, std::move(record.weight_work),
                            gradients);
}

stage_forward compute_evaluation(backend& ops, const pipeline& p, const stage_unit& s, std::vector<tensor> inputs,
                                 const tensor& labels, const weight_set& weights, std::span<tensor> states) {
  stage_forward result;
  if (s.after_layer_actor) require_finite_messages(ops, p, s, "the activation", s.layers->inputs(), inputs);
  if (s.is_first) adopt_layout(ops, inputs);
  auto outputs =
      s.layers->forward(ops, {.mode = phase::evaluation, .update_state = false, .require_finite = p.require_finite},
                        std::move(inputs), weights.tensors, states, nullptr);
  if (s.is_last)
    result.metrics = p.loss.forward(ops, outputs.front(), labels).metrics;
  else
    result.outputs = std::move(outputs);
  return result;
}

std::vector<tensor> sum_gradients(backend& ops, std::vector<std::vector<tensor>> replicas) {
  auto sum = std::move(replicas.front());
  for (std::size_t r = 1; r < replicas.size(); ++r)
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (!replicas[r][i]) continue;
      if (!sum[i])
        sum[i] = std::move(replicas[r][i]);
      else
        ops.get<elementwise_ops>().accumulate(sum[i], replicas[r][i]);
      replicas[r][i] = {};
    }
  return sum;
}

std::vector<tensor> sum_gradients(backend& ops, std::span<const gradients_ptr> replicas) {
  std::vector<std::vector<tensor>> all;
  for (const auto& r : replicas)
    all.push_back(std::move(*r));
  return sum_gradients(ops, std::move(all));
}

std::vector<double> gradient_squares(backend& ops, std::span<const tensor> gradients) {
  std::vector<double> squares;
  for (const auto& g : gradients)
    squares.push_back(g ? ops.get<optimizer_ops>().sum_of_squares(g) : 0);
  return squares;
}

namespace {

void keep_first_gradients(backend& ops, const stage_unit& s, float scale, std::span<const tensor> gradients,
                          named_tensors& kept) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    auto plain = ops.to_plain(gradients[i]);
    auto copy = ops.allocate(dtype::f32, plain.dims(), memory_use::scratch);
    for (std::int64_t e = 0; e < plain.elements(); ++e)
      copy.data<float>()[e] = plain.data<float>()[e] * scale;
    kept[s.layers->parameters()[i].name] = std::move(copy);
  }
}

} // namespace

void compute_update(backend& ops, const pipeline& p, stage_unit& s, const run_options& options,
                    const update_order& order, std::span<const tensor> gradients, stage_weights& owned, bool in_place,
                    weights_ptr made) {
  const compute_times::watch timing(s.first_local().times.update);
  if (order.keep_gradients) keep_first_gradients(ops, s, order.gradient_scale, gradients, owned.first_gradients);
  const auto newest = owned.newest;
  auto next = made ? std::move(made) : std::make_shared<weight_set>(weight_set{newest->version + 1, {}});
  check(next->version == newest->version + 1, "an update out of turn");
  next->tensors.resize(newest->tensors.size());
  for (std::size_t i = 0; i < next->tensors.size(); ++i) {
    const tensor weight = newest->tensors[i];
    if (!gradients[i]) { // nothing flowed back: the parameter stays as it is
      next->tensors[i] = weight;
      continue;
    }
    tensor target =
        in_place ? weight : ops.allocate(weight.type(), weight.dims(), memory_use::weights, weight.format());
    const auto& spec = s.layers->parameters()[i].spec;
    const bool decay = options.decay_norm_bias || !spec.norm_or_bias;
    const bool finite = p.rule->step(ops, order.learning_rate, order.gradient_scale, decay, weight, gradients[i],
                                     owned.optimizer_states[i], target);
    // A layer may swallow what is not finite (ReLU of NaN), so that no loss shows it; its gradients cannot.
    if (!finite && options.stop_on_nonfinite)
      throw error("[training] the weights are not finite after an update: stage " + std::to_string(s.index) +
                  ", parameter " + s.layers->parameters()[i].name + ", minibatch " +
                  std::to_string(order.first_minibatch) + ", weight version " + std::to_string(next->version));
    next->tensors[i] = std::move(target);
  }
  owned.newest = std::move(next);
}

void compute_job(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r, stage_work& job,
                 const std::function<void(int)>& layer_done) {
  switch (job.what) {
  case stage_work::kind::backward:
    job.outputs = compute_backward(ops, p, s, r, *job.states, std::move(job.inputs), *job.weights, *job.record,
                                   *job.gradients, layer_done);
    return;
  case stage_work::kind::backward_input:
    job.outputs = compute_backward_input(ops, p, s, r, *job.states, std::move(job.inputs), *job.weights, *job.record);
    return;
  case stage_work::kind::backward_weight:
    return compute_backward_weight(ops, p, s, r, *job.weights, *job.record, *job.gradients, layer_done);
  case stage_work::kind::forward:
  case stage_work::kind::evaluate:
    break;
  }
  auto result = job.what == stage_work::kind::forward
                    ? compute_forward(ops, p, s, r, *job.states, std::move(job.inputs), job.labels, *job.record)
                    : compute_evaluation(ops, p, s, std::move(job.inputs), job.labels, *job.weights, *job.states);
  job.outputs = std::move(result.outputs);
  job.metrics = result.metrics;
  if (job.lets_go_of_weights) job.record->weights.reset();
}

} // namespace penstock::actors
