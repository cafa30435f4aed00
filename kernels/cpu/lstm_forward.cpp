// The LSTM forward: the input's product for all steps at once, then a product and the cells of each step, panel by
// panel. A thread has the same panels throughout, so the team meets once a step.
#include "kernels/cpu/lstm_call.hpp"
#include "kernels/cpu/onednn_recurrent.hpp"

#include <algorithm>
#include <cstring>

namespace penstock {

namespace {

struct forward_pass {
  const lstm_call& call;
  row_pointers input_rows, hidden_rows; // of the weights, by places of G
  row_pointers x_rows;
  std::vector<float*> gate_rows; // by steps and rows
  float *input_panels, *hidden_panels;
  const float* bias; // by places of G
  float *gates, *cells, *y;
  const float* first_cells; // (B, C)
  float* scaled;            // (B, H) for each member, where the state may continue in part
  bool keeps;
  bool packs;

  float* cells_of(std::int64_t step) const { return cells + (keeps ? step : step % 2) * call.rows * call.cell_row; }

  void pack(share mine) const {
    const std::int64_t width = call.tiles.width();
    for (std::int64_t p = mine.begin; p < mine.end; ++p) {
      call.tiles.transpose(input_rows.data() + p * width, width, call.features,
                           input_panels + p * width * call.features, width);
      call.tiles.transpose(hidden_rows.data() + p * width, width, call.hidden, hidden_panels + p * width * call.hidden,
                           width);
    }
  }

  // Cells of one vector of units after the product of that step.
  template <int Lanes>
  PENSTOCK_INLINED void finish(std::int64_t step, std::int64_t panel) const {
    using vec = typename lanes_of<Lanes>::vec;
    using mem = typename lanes_of<Lanes>::mem;
    const std::int64_t unit = panel * Lanes, valid = std::min<std::int64_t>(Lanes, call.hidden - unit);
    const float* before = step == 0 ? first_cells : cells_of(step - 1);
    float* after = cells_of(step);
    for (std::int64_t b = 0; b < call.rows; ++b) {
      float* out = y + call.walk.place(b, step) * call.hidden + unit;
      vec c = *reinterpret_cast<const mem*>(before + b * call.cell_row + unit);
      vec h{};
      if (!call.walk.rests(b, step)) {
        mem* at = reinterpret_cast<mem*>(gates + (step * call.rows + b) * call.gate_row + panel * 4 * Lanes);
        vec i = at[0], f = at[1], g = at[2], o = at[3];
        sigmoid_in_place<Lanes>(i);
        sigmoid_in_place<Lanes>(f);
        tanh_in_place<Lanes>(g);
        sigmoid_in_place<Lanes>(o);
        if (call.inputs.continues) c *= call.continuation(b, step);
        c = f * c + i * g;
        h = c;
        tanh_in_place<Lanes>(h);
        h *= o;
        at[0] = i, at[1] = f, at[2] = g, at[3] = o;
      }
      *reinterpret_cast<mem*>(after + b * call.cell_row + unit) = c;
      if (valid == Lanes)
        *reinterpret_cast<mem*>(out) = h;
      else
        std::memcpy(out, &h, static_cast<std::size_t>(valid) * sizeof(float));
    }
  }

  void run(int member, int team) const {
    const share mine(call.panels, member, team);
    if (packs) pack(mine);
    const tile_product input{x_rows.data(), call.features, input_panels, call.gate_row, gate_rows.data(), false, bias};
    input.compute(call.tiles, share(call.steps * call.rows, 0, 1), mine);
    row_pointers before(static_cast<std::size_t>(call.rows));
    for (std::int64_t step = 0; step < call.steps; ++step) {
      if (step > 0 || call.inputs.h) {
        for (std::int64_t b = 0; b < call.rows; ++b)
          before[static_cast<std::size_t>(b)] = call.hidden_before(
              y, b, step, scaled == nullptr ? nullptr : scaled + (member * call.rows + b) * call.hidden);
        const tile_product recurrent{
            before.data(), call.hidden, hidden_panels, call.gate_row, gate_rows.data() + step * call.rows, true};
        recurrent.compute(call.tiles, share(call.rows, 0, 1), mine);
      }
      call_with_lanes(call.width, [&]<int Lanes>() PENSTOCK_VECTORIZED {
        for (std::int64_t p = mine.begin; p < mine.end; ++p)
          finish<Lanes>(step, p);
      });
      meet(team);
    }
  }
};

} // namespace

namespace {

bool same_weights(const lstm_weights& a, const lstm_weights& b) {
  const auto same = [](const tensor& x, const tensor& y) {
    return static_cast<bool>(x) == static_cast<bool>(y) && (!x || x.raw() == y.raw());
  };
  return same(a.input, b.input) && same(a.hidden, b.hidden) && same(a.bias, b.bias) &&
         same(a.second_bias, b.second_bias);
}

} // namespace

lstm_result onednn_recurrent::lstm_forward(const lstm_args& args, const lstm_inputs& inputs,
                                           const lstm_weights& weights, bool keep) {
  const lstm_call call(args, inputs, weights.hidden.dim(1));
  const std::int64_t rows = call.rows, steps = call.steps, hidden = call.hidden;
  lstm_result result;
  result.y = context_.allocate(dtype::f32, {rows, steps, hidden}, memory_use::activations);
  const auto use = keep ? memory_use::activations : memory_use::scratch;
  tensor gates = context_.allocate(dtype::f32, {steps, rows, call.gate_row}, use);
  tensor cells = context_.allocate(dtype::f32, {keep ? steps : 2, rows, call.cell_row}, use);
  const tensor first_cells = scratch(rows * call.cell_row);
  std::fill_n(first_cells.data<float>(), first_cells.elements(), 0.0F);
  for (std::int64_t b = 0; b < rows && inputs.c; ++b)
    std::copy_n(inputs.c.data<float>() + b * hidden, hidden, first_cells.data<float>() + b * call.cell_row);
  const bool repeats = !keep && steps == 1 && inputs.h;
  if (!repeats) kept_.clear();
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const kept_lstm& k) {
    return k.order == args.order && k.width == call.width && same_weights(k.of, weights);
  });
  const bool packs = known == kept_.end();
  const packed_lstm packed = !packs ? known->packed
                                    : packed_lstm{.input = scratch(call.gate_row * call.features),
                                                  .hidden = scratch(call.gate_row * hidden),
                                                  .bias = scratch(call.gate_row)};
  for (std::int64_t n = 0; n < call.gate_row && packs; ++n) {
    const std::int64_t row = call.weight_row(n);
    float sum = row >= 0 && weights.bias ? weights.bias.data<float>()[row] : 0.0F;
    if (row >= 0 && weights.second_bias) sum += weights.second_bias.data<float>()[row];
    packed.bias.data<float>()[n] = sum;
  }
  constexpr std::size_t most_kept = 64;
  if (repeats && packs && kept_.size() < most_kept) kept_.push_back({weights, args.order, call.width, packed});
  const tensor scaled = inputs.continues ? scratch(omp_get_max_threads() * rows * hidden) : tensor{};
  forward_pass pass{.call = call,
                    .input_rows = call.weight_rows(weights.input, call.features),
                    .hidden_rows = call.weight_rows(weights.hidden, hidden),
                    .x_rows = call.walked_rows<const float>(inputs.x.data<float>(), call.features),
                    .gate_rows = {},
                    .input_panels = packed.input.data<float>(),
                    .hidden_panels = packed.hidden.data<float>(),
                    .bias = packed.bias.data<float>(),
                    .gates = gates.data<float>(),
                    .cells = cells.data<float>(),
                    .y = result.y.data<float>(),
                    .first_cells = first_cells.data<float>(),
                    .scaled = scaled ? scaled.data<float>() : nullptr,
                    .keeps = keep,
                    .packs = packs};
  for (std::int64_t r = 0; r < steps * rows; ++r)
    pass.gate_rows.push_back(gates.data<float>() + r * call.gate_row);
  in_team(static_cast<double>(steps * rows) * static_cast<double>(call.gate_row * (call.features + hidden)),
          [&](int member, int team) { pass.run(member, team); });

  result.h = context_.allocate(dtype::f32, {rows, hidden}, memory_use::activations);
  result.c = context_.allocate(dtype::f32, {rows, hidden}, memory_use::activations);
  for (std::int64_t b = 0; b < rows; ++b) {
    const std::int64_t length = call.walk.length(b);
    const float* h = length > 0 ? pass.y + call.walk.place(b, length - 1) * hidden
                     : inputs.h ? inputs.h.data<float>() + b * hidden
                                : call.zeros.data();
    const float* c = (steps > 0 ? pass.cells_of(steps - 1) : pass.first_cells) + b * call.cell_row;
    std::copy_n(h, hidden, result.h.data<float>() + b * hidden);
    std::copy_n(c, hidden, result.c.data<float>() + b * hidden);
  }
  if (keep) result.gates = std::move(gates), result.cells = std::move(cells);
  return result;
}

} // namespace penstock
