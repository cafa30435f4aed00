// Recurrent networks.
#include "tests/support/delayed/delayed_families.hpp"

namespace penstock::testing {

namespace {

class recurrent final : public recurrent_ops {
public:
  explicit recurrent(delayed_backend& device) : device_(device) {}

  lstm_result lstm_forward(const lstm_args& args, const lstm_inputs& inputs, const lstm_weights& weights,
                           bool keep) override {
    const std::int64_t rows = inputs.x.dim(0), steps = inputs.x.dim(1), hidden = weights.hidden.dim(1);
    lstm_result result;
    result.y = device_.allocate_activation({rows, steps, hidden});
    result.h = device_.allocate_activation({rows, hidden});
    result.c = device_.allocate_activation({rows, hidden});
    if (keep) {
      result.gates = device_.allocate_activation({steps, rows, 4 * hidden});
      result.cells = device_.allocate_activation({steps, rows, hidden});
    }
    device_.ask(listed(inputs, {weights.input, weights.hidden, weights.bias, weights.second_bias}),
                {result.y, result.h, result.c, result.gates, result.cells}, [args, keep](backend& loops, auto& in) {
                  const auto made =
                      loops.get<recurrent_ops>().lstm_forward(args, named(in), {in[5], in[6], in[7], in[8]}, keep);
                  return std::vector{made.y, made.h, made.c, made.gates, made.cells};
                });
    return result;
  }

  lstm_input_gradients lstm_backward_input(const lstm_args& args, const lstm_inputs& inputs,
                                           const lstm_weights& weights, const lstm_result& made, const tensor& dy,
                                           bool want_dx) override {
    lstm_input_gradients result;
    if (want_dx) result.x = device_.allocate_activation(inputs.x.dims());
    result.gates = device_.allocate(dtype::f32, made.gates.dims(), memory_use::gradients);
    device_.ask(listed(inputs, {weights.input, weights.hidden, made.gates, made.cells, dy}), {result.x, result.gates},
                [args, want_dx](backend& loops, auto& in) {
                  const auto d = loops.get<recurrent_ops>().lstm_backward_input(
                      args, named(in), {in[5], in[6], {}, {}}, {{}, {}, {}, in[7], in[8]}, in[9], want_dx);
                  return std::vector{d.x, d.gates};
                });
    return result;
  }

  lstm_weight_gradients lstm_backward_weight(const lstm_args& args, const lstm_inputs& inputs, const tensor& y,
                                             const tensor& gates, bool has_bias) override {
    lstm_weight_gradients result;
    const std::int64_t hidden = y.dim(2);
    result.input = device_.allocate(dtype::f32, {4 * hidden, inputs.x.dim(2)}, memory_use::gradients);
    result.hidden = device_.allocate(dtype::f32, {4 * hidden, hidden}, memory_use::gradients);
    if (has_bias) result.bias = device_.allocate(dtype::f32, {4 * hidden}, memory_use::gradients);
    device_.ask(listed(inputs, {y, gates}), {result.input, result.hidden, result.bias},
                [args, has_bias](backend& loops, auto& in) {
                  const auto d =
                      loops.get<recurrent_ops>().lstm_backward_weight(args, named(in), in[5], in[6], has_bias);
                  return std::vector{d.input, d.hidden, d.bias};
                });
    return result;
  }

  additive_result additive_attention(const additive_inputs& inputs) override {
    const std::int64_t rows = inputs.query.dim(0), queries = inputs.query.dim(1);
    additive_result result{device_.allocate_activation({rows, queries, inputs.value.dim(2)}),
                           device_.allocate_activation({rows, queries, inputs.key.dim(1)})};
    device_.ask(listed(inputs), {result.context, result.probabilities}, [](backend& loops, auto& in) {
      const auto made =
          loops.get<recurrent_ops>().additive_attention({in[0], in[1], in[2], in[3], in[4], in[5], in[6]});
      return std::vector{made.context, made.probabilities};
    });
    return result;
  }

  additive_gradients additive_attention_backward(const additive_inputs& inputs, const tensor& probabilities,
                                                 const tensor& dcontext) override {
    const auto like = [&](const tensor& x) { return device_.allocate(dtype::f32, x.dims(), memory_use::gradients); };
    additive_gradients result{like(inputs.query),  like(inputs.key),    like(inputs.value),
                              like(inputs.vector), like(inputs.scalar), like(inputs.bias)};
    auto operands = listed(inputs);
    operands.insert(operands.end(), {probabilities, dcontext});
    device_.ask(operands, {result.query, result.key, result.value, result.vector, result.scalar, result.bias},
                [](backend& loops, auto& in) {
                  const auto d = loops.get<recurrent_ops>().additive_attention_backward(
                      {in[0], in[1], in[2], in[3], in[4], in[5], in[6]}, in[7], in[8]);
                  return std::vector{d.query, d.key, d.value, d.vector, d.scalar, d.bias};
                });
    return result;
  }

  tensor locked_dropout(const random_key& key, float p, const tensor& x) override {
    tensor y = device_.allocate_activation(x.dims());
    device_.ask({x}, {y}, [key, p](backend& loops, auto& in) {
      return std::vector{loops.get<recurrent_ops>().locked_dropout(key, p, in[0])};
    });
    return y;
  }

  tensor penalty_sum(penalty kind, const tensor& h, double factor) override {
    tensor sum = device_.allocate(dtype::f64, {1}, memory_use::scratch);
    device_.ask({h}, {sum}, [kind, factor](backend& loops, auto& in) {
      return std::vector{loops.get<recurrent_ops>().penalty_sum(kind, in[0], factor)};
    });
    return sum;
  }

  tensor penalty_gradient(penalty kind, const tensor& h, float factor) override {
    tensor dh = device_.allocate_activation(h.dims());
    device_.ask({h}, {dh}, [kind, factor](backend& loops, auto& in) {
      return std::vector{loops.get<recurrent_ops>().penalty_gradient(kind, in[0], factor)};
    });
    return dh;
  }

private:
  static std::vector<tensor> listed(const lstm_inputs& inputs, const std::vector<tensor>& more) {
    std::vector<tensor> all{inputs.x, inputs.lengths, inputs.h, inputs.c, inputs.continues};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<tensor> listed(const additive_inputs& inputs) {
    return {inputs.query, inputs.key, inputs.value, inputs.lengths, inputs.vector, inputs.scalar, inputs.bias};
  }
  static lstm_inputs named(const std::vector<tensor>& in) { return {in[0], in[1], in[2], in[3], in[4]}; }

  delayed_backend& device_;
};

} // namespace

std::shared_ptr<recurrent_ops> delayed_recurrent(delayed_backend& device) {
  return std::make_shared<recurrent>(device);
}

} // namespace penstock::testing
