// Forward, backward and update of a stage.
#include "actors/stage/stage_compute.hpp"

#include "kernels/check.hpp"
#include "kernels/finite.hpp"
#include "kernels/ops/elementwise_ops.hpp"
#include "kernels/ops/optimizer_ops.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace penstock::actors {

namespace {

segment_call training_call(const pipeline& p, const microbatch_id& id, const replica_unit& r, outcome& tells) {
  return {.seed = id.seed,
          .minibatch = id.minibatch,
          .microbatch = id.microbatch,
          .info = id.info,
          .tells = p.require_finite ? &tells : nullptr,
          .observe = r.observe};
}

bool reads_host(backend& ops) {
  return ops.device().host_memory() != nullptr;
}

// Other ranks send plain tensors where the device's memory is its own; between layers rank-4 tensors have the device's
// layout.
void take_in(backend& ops, std::span<tensor> tensors) {
  for (auto& t : tensors) {
    if (!t) continue;
    t = ops.from_host(t, memory_use::activations);
    if (t.rank() == 4 && t.type() == dtype::f32)
      t = ops.reorder(t, ops.activation_format(t.dims()), memory_use::activations);
  }
}

// Those of a forward: what the source feeds is behind what the stage before sent.
void take_in_arguments(backend& ops, const segment& layers, std::span<tensor> arguments) {
  const auto fed = layers.inputs().size();
  if (!reads_host(ops)) take_in(ops, arguments.first(fed));
  take_in(ops, arguments.subspan(fed));
}

// Statistics come from the host when a run or an evaluation begins.
void take_in_states(backend& ops, std::span<tensor> states) {
  if (reads_host(ops)) return;
  for (auto& t : states)
    t = ops.from_host(t, memory_use::optimizer_state);
}

// How long the device takes from here to the end of the scope, when it is known.
class timing {
public:
  timing(backend& ops, duration_log& log, outcome& tells)
      : ops_(ops), log_(log), tells_(tells), begin_(ops.record()), faults_(std::uncaught_exceptions()) {}
  ~timing() {
    if (std::uncaught_exceptions() > faults_) return;
    tells_.then([&log = log_, begin = begin_, end = ops_.record()] { log.add(seconds_between(*begin, *end)); });
  }
  timing(const timing&) = delete;
  timing& operator=(const timing&) = delete;

private:
  backend& ops_;
  duration_log& log_;
  outcome& tells_;
  event_ptr begin_;
  int faults_;
};

// A layer actor is its writer's, as a layer may be.
void look_through_messages(backend& ops, const pipeline& p, const stage_unit& s, const char* what,
                           const std::vector<value_id>& ids, const std::vector<tensor>& tensors, outcome& tells) {
  if (!p.require_finite) return;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (tensors[i])
      tells.expect(ops.get<elementwise_ops>().find_nonfinite(tensors[i]),
                   [dims = tensors[i].dims(),
                    message = "[message] " + std::string(what) + " of " + p.net->value(ids[i]).name +
                              " from the layer actor beside stage " + std::to_string(s.index)](const tensor& found) {
                     require_none_found(found, dims, message);
                   });
}

void recompute(backend& ops, const pipeline& p, const stage_unit& s, const replica_unit& r, std::span<tensor> states,
               microbatch_record& record, outcome& tells) {
  auto call = training_call(p, record.id, r, tells);
  call.update_state = false; // it was, by the forward
  const auto carried = std::move(record.carried);
  call.carried = carried;
  s.layers->recompute(ops, call, std::move(record.kept), record.weights->tensors, states, record.activations);
}

// What the losses of a stage sum, when it is complete.
void expect_metrics(const pipeline& p, const stage_unit& s, const microbatch_info& info, const segment_losses& found,
                    loss_metrics& metrics, outcome& tells) {
  metrics.samples = info.samples;
  metrics.counts = info.counts;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i].sums) continue; // left out: of training alone, or of frozen layers
    const auto& loss = p.net->losses()[static_cast<std::size_t>(s.layers->losses()[i])];
    std::vector<shape> read;
    for (const auto id : loss.inputs)
      read.push_back(p.net->spec(id, info).dims);
    tells.expect(found[i].sums, [&loss, &metrics, read = std::move(read)](const tensor& sums) {
      loss.op->judge(sums, read);
      const auto count = loss.op->sums().size();
      std::copy_n(sums.data<double>(), count, metrics.sums.begin() + static_cast<std::ptrdiff_t>(loss.first_sum));
    });
  }
}

} // namespace

std::vector<tensor> compute_forward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                    std::span<tensor> states, carried_columns& carried, std::vector<tensor> inputs,
                                    microbatch_record& record, loss_metrics& metrics, outcome& tells) {
  const auto& info = record.id.info;
  if (info.samples == 0) {
    metrics.counts = info.counts;
    return std::vector<tensor>(s.layers->outputs().size());
  }
  const timing measured(ops, r.times.forward, tells);
  take_in_arguments(ops, *s.layers, inputs);
  take_in_states(ops, states);
  if (s.after_layer_actor) look_through_messages(ops, p, s, "the activation", s.layers->inputs(), inputs, tells);
  auto taken = carried.take(ops, info);
  std::vector<tensor> handed_on;
  auto call = training_call(p, record.id, r, tells);
  call.carried = taken;
  call.carried_out = carried.is_needed() ? &handed_on : nullptr;
  call.kept = s.recomputes ? &record.kept : nullptr;
  auto outputs =
      s.layers->forward(ops, call, std::move(inputs), record.weights->tensors, states,
                        s.recomputes || s.layers->is_frozen() ? nullptr : &record.activations, &record.losses);
  carried.put(info, std::move(handed_on));
  if (s.recomputes) record.carried = std::move(taken);
  expect_metrics(p, s, info, record.losses, metrics, tells);
  for (auto& loss : record.losses)
    loss.sums = {};
  if (s.is_last) return {};
  return outputs;
}

namespace {

// What a backward begins with, whole or split: the gradients of what the stage put out.
std::vector<tensor> prepare_backward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                     std::span<tensor> states, std::vector<tensor> output_gradients,
                                     microbatch_record& record, outcome& tells) {
  if (!reads_host(ops)) take_in(ops, output_gradients);
  if (s.before_layer_actor)
    look_through_messages(ops, p, s, "the gradient", s.layers->outputs(), output_gradients, tells);
  if (s.recomputes) recompute(ops, p, s, r, states, record, tells);
  output_gradients.resize(s.layers->outputs().size()); // nobody sends one for the model's results
  return output_gradients;
}

segment_call telling_call(backend& ops, const pipeline& p, const microbatch_record& record, replica_unit& r,
                          outcome& tells, const layer_listener& layer_done) {
  auto call = training_call(p, record.id, r, tells);
  if (layer_done)
    call.observe = [&ops, observe = r.observe, layer_done](const layer_observation& o) {
      if (observe) observe(o);
      ops.when_reached([layer_done, layer = o.layer] { (*layer_done)(layer); });
    };
  return call;
}

} // namespace

std::vector<tensor> compute_backward(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                     std::span<tensor> states, std::vector<tensor> output_gradients,
                                     const weight_set& weights, microbatch_record& record, std::span<tensor> gradients,
                                     outcome& tells, const layer_listener& layer_done) {
  if (record.id.info.samples == 0) return std::vector<tensor>(s.layers->inputs().size());
  const timing measured(ops, r.times.backward, tells);
  output_gradients = prepare_backward(ops, p, s, r, states, std::move(output_gradients), record, tells);
  return s.layers->backward(ops, telling_call(ops, p, record, r, tells, layer_done), std::move(output_gradients),
                            weights.tensors, std::move(record.activations), gradients,
                            std::exchange(record.losses, {}));
}

std::vector<tensor> compute_backward_input(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                                           std::span<tensor> states, std::vector<tensor> output_gradients,
                                           const weight_set& weights, microbatch_record& record, outcome& tells) {
  if (record.id.info.samples == 0) return std::vector<tensor>(s.layers->inputs().size());
  const timing measured(ops, r.times.backward_input, tells);
  output_gradients = prepare_backward(ops, p, s, r, states, std::move(output_gradients), record, tells);
  return s.layers->backward_input(ops, training_call(p, record.id, r, tells), std::move(output_gradients),
                                  weights.tensors, std::move(record.activations), record.weight_work,
                                  std::exchange(record.losses, {}));
}

void compute_backward_weight(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r,
                             const weight_set& weights, microbatch_record& record, std::span<tensor> gradients,
                             outcome& tells, const layer_listener& layer_done) {
  if (record.id.info.samples == 0) return;
  const timing measured(ops, r.times.backward_weight, tells);
  s.layers->backward_weight(ops, telling_call(ops, p, record, r, tells, layer_done), weights.tensors,
                            std::move(record.weight_work), gradients);
}

std::vector<tensor> compute_evaluation(backend& ops, const pipeline& p, const stage_unit& s,
                                       const microbatch_info& info, std::vector<tensor> inputs,
                                       const weight_set& weights, std::span<tensor> states, carried_columns& carried,
                                       loss_metrics& metrics, std::vector<tensor>& results, outcome& tells) {
  take_in_arguments(ops, *s.layers, inputs);
  take_in_states(ops, states);
  if (s.after_layer_actor) look_through_messages(ops, p, s, "the activation", s.layers->inputs(), inputs, tells);
  segment_losses losses;
  const auto taken = carried.take(ops, info);
  std::vector<tensor> handed_on;
  auto outputs = s.layers->forward(ops,
                                   {.mode = phase::evaluation,
                                    .info = info,
                                    .update_state = false,
                                    .carried = taken,
                                    .carried_out = carried.is_needed() ? &handed_on : nullptr,
                                    .tells = p.require_finite ? &tells : nullptr},
                                   std::move(inputs), weights.tensors, states, nullptr, &losses);
  carried.put(info, std::move(handed_on));
  expect_metrics(p, s, info, losses, metrics, tells);
  if (!s.is_last) return outputs;
  results.resize(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    tells.expect(ops.to_plain(outputs[i]), [&results, i](const tensor& there) { results[i] = there; });
  return {};
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

void add_uses(backend& ops, const segment& layers, std::vector<tensor>& gradients, std::vector<uses_across>& across) {
  for (auto& tie : across) {
    tensor sum;
    for (const auto& given : tie.gradients) {
      if (!given) continue;
      const auto gradient = ops.from_host(given, memory_use::gradients);
      if (sum)
        ops.get<elementwise_ops>().accumulate(sum, gradient);
      else
        sum = ops.copy(gradient, memory_use::gradients);
    }
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (layers.parameters()[i].first_use == tie.parameter) gradients[i] = {};
    gradients[tie.parameter] = std::move(sum);
  }
  across.clear();
  for (std::size_t i = gradients.size(); i-- > 0;) {
    if (!gradients[i] || !layers.is_repeat(i)) continue;
    // The next use before this one takes the sum on.
    auto before = i;
    while (layers.parameters()[--before].first_use != layers.parameters()[i].first_use) {
    }
    if (!gradients[before]) {
      gradients[before] = std::move(gradients[i]);
    } else {
      auto sum = ops.from_host(gradients[i], memory_use::gradients);
      ops.get<elementwise_ops>().accumulate(sum, ops.from_host(gradients[before], memory_use::gradients));
      gradients[before] = std::move(sum);
    }
    gradients[i] = {};
  }
}

void gradient_squares(backend& ops, std::span<const tensor> gradients, std::vector<double>& squares, outcome& tells) {
  const auto count = static_cast<std::int64_t>(gradients.size());
  const auto sums = ops.allocate_zeroed(dtype::f64, {count}, memory_use::scratch);
  for (std::int64_t i = 0; i < count; ++i)
    if (const auto& g = gradients[static_cast<std::size_t>(i)])
      ops.get<optimizer_ops>().sum_of_squares(ops.from_host(g, memory_use::gradients), sums, i);
  tells.expect(sums, [&squares](const tensor& there) {
    squares.assign(there.data<double>(), there.data<double>() + there.elements());
  });
}

namespace {

// A layer may swallow what is not finite (ReLU of NaN), so that no loss shows it; its gradients cannot.
void expect_finite_weights(const stage_unit& s, const update_order& order, std::int64_t version, const tensor& strange,
                           outcome& tells) {
  tells.expect(strange, [&s, first = order.first_minibatch, version](const tensor& flags) {
    for (std::int64_t i = 0; i < flags.elements(); ++i)
      if (flags.data<std::int32_t>()[i] != 0)
        throw error("[training] the weights are not finite after an update: stage " + std::to_string(s.index) +
                    ", parameter " + s.layers->parameters()[static_cast<std::size_t>(i)].name + ", minibatch " +
                    std::to_string(first) + ", weight version " + std::to_string(version));
  });
}

} // namespace

void compute_update(backend& ops, const pipeline& p, stage_unit& s, const run_options& options,
                    const update_order& order, std::span<const tensor> gradients, stage_weights& owned, bool in_place,
                    outcome& tells, weights_ptr made) {
  const timing measured(ops, s.first_local().times.update, tells);
  const auto newest = owned.newest;
  auto next = made ? std::move(made) : std::make_shared<weight_set>(weight_set{newest->version + 1, {}});
  check(next->version == newest->version + 1, "an update out of turn");
  next->tensors.resize(newest->tensors.size());
  const auto parameters = static_cast<std::int64_t>(newest->tensors.size());
  const auto strange = ops.allocate_zeroed(dtype::i32, {parameters}, memory_use::scratch);
  for (std::size_t i = 0; i < next->tensors.size(); ++i) {
    const tensor weight = newest->tensors[i];
    if (s.layers->is_repeat(i)) {
      const auto first = s.layers->parameters()[i].first_use;
      next->tensors[i] = next->tensors[first];
      owned.optimizer_states[i] = owned.optimizer_states[first];
      continue;
    }
    if (!gradients[i]) { // nothing flowed back: the parameter stays as it is
      next->tensors[i] = weight;
      continue;
    }
    const auto gradient = ops.from_host(gradients[i], memory_use::gradients);
    if (order.keep_gradients)
      owned.first_gradients[s.layers->parameters()[i].name] =
          ops.get<elementwise_ops>().scaled(gradient, order.gradient_scale);
    tensor target =
        in_place ? weight : ops.allocate(weight.type(), weight.dims(), memory_use::weights, weight.format());
    const auto& spec = s.layers->parameters()[i].spec;
    const bool decay = options.decay_norm_bias || !spec.norm_or_bias;
    p.rule->step(ops, order.learning_rate * spec.rate, order.gradient_scale, decay, weight, gradient,
                 owned.optimizer_states[i], target, strange, static_cast<std::int64_t>(i));
    if (order.averages) p.rule->average(ops, target, owned.optimizer_states[i]);
    next->tensors[i] = std::move(target);
  }
  if (options.stop_on_nonfinite) expect_finite_weights(s, order, next->version, strange, tells);
  owned.newest = std::move(next);
}

namespace {

void compute_work(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r, stage_work& job,
                  const layer_listener& layer_done) {
  switch (job.what) {
  case stage_work::kind::forward:
    job.outputs = compute_forward(ops, p, s, r, *job.states, *job.carried, std::move(job.inputs), *job.record,
                                  job.metrics, job.tells);
    if (job.lets_go_of_weights) job.record->weights.reset();
    return;
  case stage_work::kind::backward:
    job.outputs = compute_backward(ops, p, s, r, *job.states, std::move(job.inputs), *job.weights, *job.record,
                                   *job.gradients, job.tells, layer_done);
    return;
  case stage_work::kind::backward_input:
    job.outputs =
        compute_backward_input(ops, p, s, r, *job.states, std::move(job.inputs), *job.weights, *job.record, job.tells);
    return;
  case stage_work::kind::backward_weight:
    return compute_backward_weight(ops, p, s, r, *job.weights, *job.record, *job.gradients, job.tells, layer_done);
  case stage_work::kind::evaluate:
    job.outputs = compute_evaluation(ops, p, s, job.info, std::move(job.inputs), *job.weights, *job.states,
                                     *job.carried, job.metrics, job.results, job.tells);
    return;
  }
}

// A backward does where its weights are not stashed.
bool reads_what_is_unread(const replica_unit& r, const stage_work& job) {
  return !job.weights || job.what == stage_work::kind::evaluate || job.weights->version >= r.unread_version;
}

} // namespace

void compute_job(backend& ops, const pipeline& p, const stage_unit& s, replica_unit& r, stage_work& job,
                 const layer_listener& layer_done) {
  job.begin = ops.record();
  if (reads_what_is_unread(r, job)) job.tells.adopt(r.unread);
  compute_work(ops, p, s, r, job, layer_done);
  job.tells.fetch(ops);
  job.end = ops.record();
}

} // namespace penstock::actors
