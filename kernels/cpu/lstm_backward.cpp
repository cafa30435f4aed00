// The LSTM backward: the steps from the last to the first, panel by panel of the state, then the products over all
// steps at once. What a panel's step needs of the one after it is a product with all of that one's gates, so the team
// meets once a step.
#include "kernels/cpu/lstm_call.hpp"
#include "kernels/cpu/onednn_recurrent.hpp"

#include <cstring>

namespace penstock {

namespace {

struct input_pass {
  const lstm_call& call;
  row_pointers hidden_rows, input_rows; // of the weights, by places of G
  float *hidden_panels, *input_panels;  // panels of H and of the features
  row_pointers gradient_rows;           // of `dgates`, by steps and rows
  std::vector<float*> dx_rows;          // by steps and rows; empty where not wanted
  std::vector<float*> carried_rows;     // of `dh`
  const float *gates, *cells, *dy;
  const float* first_cells; // (B, C)
  float *dgates, *dh, *dc;  // dh and dc: (B, panels of H whole)

  std::int64_t state_panels() const { return call.tiles.panels(call.hidden); }
  std::int64_t state_row() const { return state_panels() * call.tiles.width(); }

  // One vector of units of one step.
  template <int Lanes>
  PENSTOCK_INLINED void step_of(std::int64_t step, std::int64_t panel) const {
    using vec = typename lanes_of<Lanes>::vec;
    using mem = typename lanes_of<Lanes>::mem;
    const std::int64_t unit = panel * Lanes, valid = std::min<std::int64_t>(Lanes, call.hidden - unit);
    const float* before = step == 0 ? first_cells : cells + (step - 1) * call.rows * call.cell_row;
    for (std::int64_t b = 0; b < call.rows; ++b) {
      const std::int64_t place = (step * call.rows + b) * call.gate_row + panel * 4 * Lanes;
      mem* out = reinterpret_cast<mem*>(dgates + place);
      float *carried_h = dh + b * state_row() + unit, *carried_c = dc + b * state_row() + unit;
      if (call.walk.rests(b, step)) {
        out[0] = out[1] = out[2] = out[3] = vec{};
        continue;
      }
      vec whole{};
      const float* gradient = dy + call.walk.place(b, step) * call.hidden + unit;
      if (valid == Lanes)
        whole = *reinterpret_cast<const mem*>(gradient);
      else
        std::memcpy(&whole, gradient, static_cast<std::size_t>(valid) * sizeof(float));
      const bool is_last = step + 1 == call.steps;
      if (!is_last) {
        const float continues = call.inputs.continues ? call.continuation(b, step + 1) : 1.0F;
        whole += *reinterpret_cast<const mem*>(carried_h) * continues;
      }
      const mem* at = reinterpret_cast<const mem*>(gates + place);
      const vec i = at[0], f = at[1], g = at[2], o = at[3];
      vec cell = *reinterpret_cast<const mem*>(cells + (step * call.rows + b) * call.cell_row + unit);
      tanh_in_place<Lanes>(cell);
      vec previous = *reinterpret_cast<const mem*>(before + b * call.cell_row + unit);
      vec through = *reinterpret_cast<const mem*>(carried_c) + whole * o * (1.0F - cell * cell);
      vec left = through * f;
      if (call.inputs.continues) {
        const float continues = call.continuation(b, step);
        previous *= continues;
        left *= continues;
      }
      out[0] = through * g * i * (1.0F - i);
      out[1] = through * previous * f * (1.0F - f);
      out[2] = through * i * (1.0F - g * g);
      out[3] = whole * cell * o * (1.0F - o);
      *reinterpret_cast<mem*>(carried_c) = left;
    }
  }

  void run(int member, int team) const {
    const std::int64_t width = call.tiles.width(), all = call.steps * call.rows;
    const share mine(state_panels(), member, team);
    for (std::int64_t p = mine.begin; p < mine.end; ++p)
      pack_panel(call.tiles, hidden_rows.data(), call.gate_row, p * width, call.hidden,
                 hidden_panels + p * width * call.gate_row);
    const std::int64_t input_panel_count = dx_rows.empty() ? 0 : call.tiles.panels(call.features);
    const share inputs(input_panel_count, member, team);
    for (std::int64_t p = inputs.begin; p < inputs.end; ++p)
      pack_panel(call.tiles, input_rows.data(), call.gate_row, p * width, call.features,
                 input_panels + p * width * call.gate_row);
    for (std::int64_t step = call.steps - 1; step >= 0; --step) {
      if (step + 1 < call.steps) {
        const tile_product recurrent{gradient_rows.data() + (step + 1) * call.rows, call.gate_row, hidden_panels,
                                     state_row(), carried_rows.data()};
        recurrent.compute(call.tiles, share(call.rows, 0, 1), mine);
      }
      call_with_lanes(call.width, [&]<int Lanes>() PENSTOCK_VECTORIZED {
        for (std::int64_t p = 4 * mine.begin; p < std::min(4 * mine.end, call.panels); ++p)
          step_of<Lanes>(step, p);
      });
      meet(team);
    }
    if (dx_rows.empty()) return;
    const tile_product input{gradient_rows.data(), call.gate_row, input_panels, call.features, dx_rows.data()};
    input.compute(call.tiles, share(all, member, team), share(input_panel_count, 0, 1));
  }
};

struct weight_pass {
  // Rows of the transposed gate gradients at once: with a thousand or two steps and rows they fit the second cache.
  static constexpr std::int64_t rows_at_once = 96;

  const lstm_call& call;
  row_pointers gradient_rows, x_rows, hidden_rows; // by steps and rows; of h from the first that is not zero
  float *x_panels, *hidden_panels;
  std::vector<float*> input_out, hidden_out; // rows of the gradients, by places of G
  float* bias;                               // by rows of the weights, or null
  float* turned;                             // rows_at_once rows for each member

  void pack(const row_pointers& from, std::int64_t columns, share mine, float* panels) const {
    const auto depth = static_cast<std::int64_t>(from.size());
    const std::int64_t width = call.tiles.width();
    for (std::int64_t p = mine.begin; p < mine.end; ++p)
      pack_panel(call.tiles, from.data(), depth, p * width, columns, panels + p * width * depth);
  }

  void run(int member, int team) const {
    const auto depth = static_cast<std::int64_t>(x_rows.size()), later = static_cast<std::int64_t>(hidden_rows.size());
    const std::int64_t x_panel_count = call.tiles.panels(call.features), h_panel_count = call.tiles.panels(call.hidden);
    pack(x_rows, call.features, share(x_panel_count, member, team), x_panels);
    pack(hidden_rows, call.hidden, share(h_panel_count, member, team), hidden_panels);
    meet(team);
    const share mine(call.gate_row / 4, member, team); // in fours, so that blocks of rows are alike
    row_pointers all, later_ones;
    float* own = turned + member * rows_at_once * depth;
    for (std::int64_t r = 0; r < rows_at_once; ++r) {
      all.push_back(own + r * depth);
      later_ones.push_back(own + r * depth + (depth - later));
    }
    row_pointers from(static_cast<std::size_t>(depth));
    for (std::int64_t first = 4 * mine.begin; first < 4 * mine.end; first += rows_at_once) {
      const std::int64_t count = std::min(rows_at_once, 4 * mine.end - first);
      for (std::int64_t k = 0; k < depth; ++k)
        from[static_cast<std::size_t>(k)] = gradient_rows[static_cast<std::size_t>(k)] + first;
      call.tiles.transpose(from.data(), depth, count, own, depth);
      const tile_product input{all.data(), depth, x_panels, call.features, input_out.data() + first};
      input.compute(call.tiles, share(count, 0, 1), share(x_panel_count, 0, 1));
      const tile_product recurrent{later_ones.data(), later, hidden_panels, call.hidden, hidden_out.data() + first};
      if (later > 0) recurrent.compute(call.tiles, share(count, 0, 1), share(h_panel_count, 0, 1));
      for (std::int64_t r = 0; r < count && bias != nullptr; ++r)
        if (const std::int64_t row = call.weight_row(first + r); row >= 0) bias[row] = sum_of(own + r * depth, depth);
    }
  }

  static float sum_of(const float* values, std::int64_t count) {
    double sum = 0;
    call_with_lanes(widest_vectors(), [&]<int Lanes>() PENSTOCK_VECTORIZED {
      double parts[Lanes] = {};
      std::int64_t i = 0;
      for (; i + Lanes <= count; i += Lanes)
        for (int l = 0; l < Lanes; ++l)
          parts[l] += static_cast<double>(values[i + l]);
      for (int l = 0; i < count; ++i, ++l)
        parts[l] += static_cast<double>(values[i]);
      for (const double part : parts)
        sum += part;
    });
    return static_cast<float>(sum);
  }
};

} // namespace

lstm_input_gradients onednn_recurrent::lstm_backward_input(const lstm_args& args, const lstm_inputs& inputs,
                                                           const lstm_weights& weights, const lstm_result& made,
                                                           const tensor& dy, bool want_dx) {
  const lstm_call call(args, inputs, weights.hidden.dim(1));
  lstm_input_gradients result;
  result.gates = context_.allocate(dtype::f32, {call.steps, call.rows, call.gate_row}, memory_use::gradients);
  if (want_dx) result.x = context_.allocate(dtype::f32, inputs.x.dims(), memory_use::gradients);
  const std::int64_t width = call.tiles.width();
  const std::int64_t state_row = call.tiles.panels(call.hidden) * width;
  const tensor hidden_panels = scratch(state_row * call.gate_row);
  const tensor input_panels = scratch(want_dx ? call.tiles.panels(call.features) * width * call.gate_row : 0);
  const tensor first_cells = scratch(call.rows * call.cell_row), carried = scratch(2 * call.rows * state_row);
  std::fill_n(first_cells.data<float>(), first_cells.elements(), 0.0F);
  std::fill_n(carried.data<float>(), carried.elements(), 0.0F);
  for (std::int64_t b = 0; b < call.rows && inputs.c; ++b)
    std::copy_n(inputs.c.data<float>() + b * call.hidden, call.hidden, first_cells.data<float>() + b * call.cell_row);
  input_pass pass{.call = call,
                  .hidden_rows = call.weight_rows(weights.hidden, call.hidden),
                  .input_rows = call.weight_rows(weights.input, call.features),
                  .hidden_panels = hidden_panels.data<float>(),
                  .input_panels = input_panels.data<float>(),
                  .gradient_rows = {},
                  .dx_rows = {},
                  .carried_rows = {},
                  .gates = made.gates.data<float>(),
                  .cells = made.cells.data<float>(),
                  .dy = dy.data<float>(),
                  .first_cells = first_cells.data<float>(),
                  .dgates = result.gates.data<float>(),
                  .dh = carried.data<float>(),
                  .dc = carried.data<float>() + call.rows * state_row};
  if (want_dx) pass.dx_rows = call.walked_rows(result.x.data<float>(), call.features);
  for (std::int64_t r = 0; r < call.steps * call.rows; ++r)
    pass.gradient_rows.push_back(pass.dgates + r * call.gate_row);
  for (std::int64_t b = 0; b < call.rows; ++b)
    pass.carried_rows.push_back(pass.dh + b * state_row);
  in_team(static_cast<double>(call.steps * call.rows) *
              static_cast<double>(call.gate_row * (call.hidden + (want_dx ? call.features : 0))),
          [&](int member, int team) { pass.run(member, team); });
  return result;
}

lstm_weight_gradients onednn_recurrent::lstm_backward_weight(const lstm_args& args, const lstm_inputs& inputs,
                                                             const tensor& y, const tensor& gates, bool has_bias) {
  const lstm_call call(args, inputs, y.dim(2));
  lstm_weight_gradients result;
  result.input = context_.allocate(dtype::f32, {4 * call.hidden, call.features}, memory_use::gradients);
  result.hidden = context_.allocate(dtype::f32, {4 * call.hidden, call.hidden}, memory_use::gradients);
  if (has_bias) result.bias = context_.allocate(dtype::f32, {4 * call.hidden}, memory_use::gradients);
  const std::int64_t depth = call.steps * call.rows, width = call.tiles.width();
  const tensor x_panels = scratch(call.tiles.panels(call.features) * width * depth);
  const tensor hidden_panels = scratch(call.tiles.panels(call.hidden) * width * depth);
  const tensor turned = scratch(omp_get_max_threads() * weight_pass::rows_at_once * depth);
  const tensor scaled = inputs.continues ? scratch(depth * call.hidden) : tensor{};
  const std::int64_t widest = std::max(call.features, call.hidden);
  std::vector<float> nowhere(static_cast<std::size_t>((call.gate_row - 4 * call.hidden) * widest)); // of the padding
  weight_pass pass{.call = call,
                   .gradient_rows = {},
                   .x_rows = call.walked_rows<const float>(inputs.x.data<float>(), call.features),
                   .hidden_rows = {},
                   .x_panels = x_panels.data<float>(),
                   .hidden_panels = hidden_panels.data<float>(),
                   .input_out = {},
                   .hidden_out = {},
                   .bias = has_bias ? result.bias.data<float>() : nullptr,
                   .turned = turned.data<float>()};
  for (std::int64_t r = 0; r < depth; ++r)
    pass.gradient_rows.push_back(gates.data<float>() + r * call.gate_row);
  for (std::int64_t r = inputs.h ? 0 : call.rows; r < depth; ++r)
    pass.hidden_rows.push_back(call.hidden_before(y.data<float>(), r % call.rows, r / call.rows,
                                                  scaled ? scaled.data<float>() + r * call.hidden : nullptr));
  float* next_nowhere = nowhere.data();
  for (std::int64_t n = 0; n < call.gate_row; ++n) {
    const std::int64_t row = call.weight_row(n);
    pass.input_out.push_back(row < 0 ? next_nowhere : result.input.data<float>() + row * call.features);
    pass.hidden_out.push_back(row < 0 ? next_nowhere : result.hidden.data<float>() + row * call.hidden);
    if (row < 0) next_nowhere += widest;
  }
  if (pass.hidden_rows.empty()) std::fill_n(result.hidden.data<float>(), result.hidden.elements(), 0.0F);
  in_team(static_cast<double>(depth) * static_cast<double>(call.gate_row * (call.features + call.hidden)),
          [&](int member, int team) { pass.run(member, team); });
  return result;
}

} // namespace penstock
