// What the parts of an LSTM on the CPU share: how gates lie in memory, where rows begin, who does what.
#pragma once

#include "kernels/cpu/tiles.hpp"
#include "kernels/lstm_walk.hpp"
#include "kernels/ops/recurrent_ops.hpp"

#include <array>
#include <omp.h>
#include <vector>

namespace penstock {

using row_pointers = std::vector<const float*>;

/// Gates lie as (T, B, G) by the steps of the walk, G being the panels of the widest tiles: in each panel the four
/// gates i, f, g, o of `lanes` units, one vector each, so that a tile ends with all that a unit's cell needs. Cells lie
/// as (T, B, C) with as many units. The units beyond the last are padding.
struct lstm_call {
  vector_width width = widest_vectors();
  const tile_set& tiles = tiles_of(width);
  lstm_walk walk;
  const lstm_inputs& inputs;
  std::int64_t rows, steps, features, hidden;
  std::int64_t panels;      ///< of gates
  std::int64_t gate_row;    ///< G
  std::int64_t cell_row;    ///< C
  std::vector<float> zeros; ///< a row for whatever has none
  std::array<std::int64_t, 4> blocks;

  lstm_call(const lstm_args& args, const lstm_inputs& given, std::int64_t units)
      : walk(given.x, given.lengths, args.reverse), inputs(given), rows(given.x.dim(0)), steps(given.x.dim(1)),
        features(given.x.dim(2)), hidden(units), panels((units + tiles.lanes - 1) / tiles.lanes),
        gate_row(panels * tiles.width()), cell_row(panels * tiles.lanes),
        zeros(static_cast<std::size_t>(std::max({features, hidden, gate_row}) + tiles.width())),
        blocks(args.order == gate_order::ifgo ? std::array<std::int64_t, 4>{0, 1, 2, 3}
                                              : std::array<std::int64_t, 4>{0, 1, 3, 2}) {}

  /// The row of a weight that place n of G stands for; -1 for padding.
  std::int64_t weight_row(std::int64_t n) const {
    const std::int64_t unit = n / tiles.width() * tiles.lanes + n % tiles.lanes;
    const auto gate = static_cast<std::size_t>(n % tiles.width() / tiles.lanes);
    return unit < hidden ? blocks[gate] * hidden + unit : -1;
  }
  /// Rows of a weight of that many columns, by places of G.
  row_pointers weight_rows(const tensor& weight, std::int64_t columns) const {
    row_pointers pointers;
    for (std::int64_t n = 0; n < gate_row; ++n) {
      const std::int64_t row = weight_row(n);
      pointers.push_back(row < 0 ? zeros.data() : weight.data<float>() + row * columns);
    }
    return pointers;
  }
  /// Rows of a (B, T, columns) tensor, by steps and rows of the walk.
  template <class Float>
  std::vector<Float*> walked_rows(Float* first, std::int64_t columns) const {
    std::vector<Float*> pointers;
    for (std::int64_t s = 0; s < steps; ++s)
      for (std::int64_t b = 0; b < rows; ++b)
        pointers.push_back(first + walk.place(b, s) * columns);
    return pointers;
  }
  float continuation(std::int64_t row, std::int64_t step) const {
    return inputs.continues ? inputs.continues.data<float>()[walk.place(row, step)] : 1.0F;
  }
  /// h before that step: a row of y or of the state that came in, or of zeros; a copy in `scaled`, H floats, where only
  /// a part of it continues.
  const float* hidden_before(const float* y, std::int64_t row, std::int64_t step, float* scaled) const {
    const float* h = step > 0   ? y + walk.place(row, step - 1) * hidden
                     : inputs.h ? inputs.h.data<float>() + row * hidden
                                : zeros.data();
    const float continues = continuation(row, step);
    if (continues == 1.0F) return h;
    if (continues == 0.0F) return zeros.data();
    for (std::int64_t u = 0; u < hidden; ++u)
      scaled[u] = h[u] * continues;
    return scaled;
  }
};

/// Calls body(member, size of the team) on each compute thread; products of few operations stay on the calling one.
template <class Body>
void in_team(double multiplications, const Body& body) {
  constexpr double worth_a_team = 1 << 18;
  const int threads = multiplications < worth_a_team ? 1 : omp_get_max_threads();
  if (threads == 1) return body(0, 1);
#pragma omp parallel num_threads(threads)
  body(omp_get_thread_num(), omp_get_num_threads());
}

/// Waits for all of the team that is at work.
inline void meet(int team) {
  if (team == 1) return;
#pragma omp barrier
}

} // namespace penstock
