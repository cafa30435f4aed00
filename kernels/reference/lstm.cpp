// The LSTM and its gradients by the formulas. Gates are kept as (T, B, 4H), in the weights' order of blocks, and cells
// as (T, B, H), both by the steps of the walk.
#include "kernels/lstm_walk.hpp"
#include "kernels/reference/reference_recurrent.hpp"

#include <cmath>

namespace penstock {

namespace {

// Which block of rows each gate has.
struct gate_blocks {
  std::int64_t i = 0, f = 1, g, o;
  explicit gate_blocks(gate_order order) : g(order == gate_order::ifgo ? 2 : 3), o(order == gate_order::ifgo ? 3 : 2) {}
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double value_at(const tensor& x, std::int64_t place) {
  return x ? x.data<float>()[place] : 0.0F;
}

double continuation(const lstm_inputs& inputs, std::int64_t place) {
  return inputs.continues ? inputs.continues.data<float>()[place] : 1.0F;
}

// h_(t-1) of one row before that step, from y and the state that came in.
double hidden_before(const lstm_inputs& inputs, const lstm_walk& walk, const tensor& y, std::int64_t row,
                     std::int64_t step, std::int64_t unit) {
  const std::int64_t hidden = y.dim(2);
  const double h =
      step == 0 ? value_at(inputs.h, row * hidden + unit) : y.data<float>()[walk.place(row, step - 1) * hidden + unit];
  return h * continuation(inputs, walk.place(row, step));
}

} // namespace

lstm_result reference_recurrent::lstm_forward(const lstm_args& args, const lstm_inputs& inputs,
                                              const lstm_weights& weights, bool keep) {
  const lstm_walk walk(inputs.x, inputs.lengths, args.reverse);
  const gate_blocks blocks(args.order);
  const std::int64_t rows = walk.rows(), steps = walk.steps(), features = inputs.x.dim(2);
  const std::int64_t hidden = weights.hidden.dim(1);
  lstm_result result;
  result.y = memory_.allocate_activation({rows, steps, hidden});
  result.h = memory_.allocate_activation({rows, hidden});
  result.c = memory_.allocate_activation({rows, hidden});
  for (std::int64_t i = 0; i < rows * hidden; ++i) {
    result.h.data<float>()[i] = static_cast<float>(value_at(inputs.h, i));
    result.c.data<float>()[i] = static_cast<float>(value_at(inputs.c, i));
  }
  if (keep) {
    result.gates = memory_.allocate_activation({steps, rows, 4 * hidden});
    result.cells = memory_.allocate_activation({steps, rows, hidden});
  }
  std::vector<double> before(static_cast<std::size_t>(4 * hidden));
  for (std::int64_t s = 0; s < steps; ++s)
    for (std::int64_t b = 0; b < rows; ++b) {
      const std::int64_t place = walk.place(b, s);
      float *h = result.h.data<float>() + b * hidden, *c = result.c.data<float>() + b * hidden;
      float* y = result.y.data<float>() + place * hidden;
      const bool rests = walk.rests(b, s);
      const double continues = continuation(inputs, place);
      for (std::int64_t n = 0; n < 4 * hidden; ++n) {
        double sum = value_at(weights.bias, n) + value_at(weights.second_bias, n);
        for (std::int64_t k = 0; k < features; ++k)
          sum += static_cast<double>(weights.input.data<float>()[n * features + k]) *
                 inputs.x.data<float>()[place * features + k];
        for (std::int64_t k = 0; k < hidden; ++k)
          sum += weights.hidden.data<float>()[n * hidden + k] * (continues * h[k]);
        before[static_cast<std::size_t>(n)] = sum;
      }
      for (std::int64_t u = 0; u < hidden; ++u) {
        const auto at = [&](std::int64_t block) { return before[static_cast<std::size_t>(block * hidden + u)]; };
        const double i = sigmoid(at(blocks.i)), f = sigmoid(at(blocks.f)), g = std::tanh(at(blocks.g)),
                     o = sigmoid(at(blocks.o));
        if (!rests) {
          c[u] = static_cast<float>(f * (continues * c[u]) + i * g);
          h[u] = static_cast<float>(o * std::tanh(static_cast<double>(c[u])));
        }
        y[u] = rests ? 0.0F : h[u];
        if (!keep) continue;
        float* kept = result.gates.data<float>() + (s * rows + b) * 4 * hidden;
        kept[blocks.i * hidden + u] = static_cast<float>(i);
        kept[blocks.f * hidden + u] = static_cast<float>(f);
        kept[blocks.g * hidden + u] = static_cast<float>(g);
        kept[blocks.o * hidden + u] = static_cast<float>(o);
        result.cells.data<float>()[(s * rows + b) * hidden + u] = c[u];
      }
    }
  return result;
}

lstm_input_gradients reference_recurrent::lstm_backward_input(const lstm_args& args, const lstm_inputs& inputs,
                                                              const lstm_weights& weights, const lstm_result& made,
                                                              const tensor& dy, bool want_dx) {
  const lstm_walk walk(inputs.x, inputs.lengths, args.reverse);
  const gate_blocks blocks(args.order);
  const std::int64_t rows = walk.rows(), steps = walk.steps(), features = inputs.x.dim(2);
  const std::int64_t hidden = weights.hidden.dim(1);
  lstm_input_gradients result;
  result.gates = memory_.allocate(dtype::f32, {steps, rows, 4 * hidden}, memory_use::gradients);
  if (want_dx) result.x = memory_.allocate_activation(inputs.x.dims());
  std::vector<double> dh(static_cast<std::size_t>(rows * hidden)), dc(static_cast<std::size_t>(rows * hidden));
  for (std::int64_t s = steps - 1; s >= 0; --s)
    for (std::int64_t b = 0; b < rows; ++b) {
      const std::int64_t place = walk.place(b, s);
      const double continues = continuation(inputs, place);
      const float* gates = made.gates.data<float>() + (s * rows + b) * 4 * hidden;
      float* dgates = result.gates.data<float>() + (s * rows + b) * 4 * hidden;
      std::fill_n(dgates, 4 * hidden, 0.0F);
      for (std::int64_t u = 0; u < hidden && !walk.rests(b, s); ++u) {
        const auto gate = [&](std::int64_t block) { return static_cast<double>(gates[block * hidden + u]); };
        const double i = gate(blocks.i), f = gate(blocks.f), g = gate(blocks.g), o = gate(blocks.o);
        const double cell = std::tanh(static_cast<double>(made.cells.data<float>()[(s * rows + b) * hidden + u]));
        const double before = continues * (s == 0 ? value_at(inputs.c, b * hidden + u)
                                                  : value_at(made.cells, ((s - 1) * rows + b) * hidden + u));
        auto& carried = dc[static_cast<std::size_t>(b * hidden + u)];
        const double whole = dh[static_cast<std::size_t>(b * hidden + u)] + dy.data<float>()[place * hidden + u];
        const double through = carried + whole * o * (1 - cell * cell);
        dgates[blocks.i * hidden + u] = static_cast<float>(through * g * i * (1 - i));
        dgates[blocks.f * hidden + u] = static_cast<float>(through * before * f * (1 - f));
        dgates[blocks.g * hidden + u] = static_cast<float>(through * i * (1 - g * g));
        dgates[blocks.o * hidden + u] = static_cast<float>(whole * cell * o * (1 - o));
        carried = through * f * continues;
      }
      for (std::int64_t u = 0; u < hidden; ++u) {
        double sum = 0;
        for (std::int64_t n = 0; n < 4 * hidden; ++n)
          sum += static_cast<double>(dgates[n]) * weights.hidden.data<float>()[n * hidden + u];
        dh[static_cast<std::size_t>(b * hidden + u)] = sum * continues;
      }
      for (std::int64_t k = 0; k < features && want_dx; ++k) {
        double sum = 0;
        for (std::int64_t n = 0; n < 4 * hidden; ++n)
          sum += static_cast<double>(dgates[n]) * weights.input.data<float>()[n * features + k];
        result.x.data<float>()[place * features + k] = static_cast<float>(sum);
      }
    }
  return result;
}

lstm_weight_gradients reference_recurrent::lstm_backward_weight(const lstm_args& args, const lstm_inputs& inputs,
                                                                const tensor& y, const tensor& gates, bool has_bias) {
  const lstm_walk walk(inputs.x, inputs.lengths, args.reverse);
  const std::int64_t rows = walk.rows(), steps = walk.steps(), features = inputs.x.dim(2), hidden = y.dim(2);
  const float* g = gates.data<float>();
  // Sum over steps and rows of that gate's gradient times what `factor` gives.
  const auto sum_over = [&](std::int64_t n, const auto& factor) {
    double sum = 0;
    for (std::int64_t s = 0; s < steps; ++s)
      for (std::int64_t b = 0; b < rows; ++b)
        sum += g[(s * rows + b) * 4 * hidden + n] * factor(b, s);
    return static_cast<float>(sum);
  };
  lstm_weight_gradients result;
  result.input = memory_.allocate(dtype::f32, {4 * hidden, features}, memory_use::gradients);
  result.hidden = memory_.allocate(dtype::f32, {4 * hidden, hidden}, memory_use::gradients);
  if (has_bias) result.bias = memory_.allocate(dtype::f32, {4 * hidden}, memory_use::gradients);
  for (std::int64_t n = 0; n < 4 * hidden; ++n) {
    for (std::int64_t k = 0; k < features; ++k)
      result.input.data<float>()[n * features + k] = sum_over(n, [&](std::int64_t b, std::int64_t s) {
        return static_cast<double>(inputs.x.data<float>()[walk.place(b, s) * features + k]);
      });
    for (std::int64_t k = 0; k < hidden; ++k)
      result.hidden.data<float>()[n * hidden + k] =
          sum_over(n, [&](std::int64_t b, std::int64_t s) { return hidden_before(inputs, walk, y, b, s, k); });
    if (has_bias) result.bias.data<float>()[n] = sum_over(n, [](std::int64_t, std::int64_t) { return 1.0; });
  }
  return result;
}

} // namespace penstock
