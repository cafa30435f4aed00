// The family of rows by number: embeddings, their gradients, learnt rows that are added or put in front, gathering.
#pragma once

#include "kernels/random_key.hpp"
#include "kernels/tensor.hpp"

#include <string_view>

namespace penstock {

/// Which rows of a table a lookup leaves out: each with probability p, by the key and the row alone; the rest is scaled
/// by 1 / (1 - p) (Gal and Ghahramani 2016).
struct row_dropout {
  random_key key{};
  float p = 0;
};

/// Tables, sequences and indices are plain. An index out of range reads zeros and adds nothing: whoever asks looks for
/// it with find_outside. Gradients are summed in the order of the indices: the same bits for any number of threads.
class embedding_ops {
public:
  static constexpr std::string_view family = "embeddings";
  virtual ~embedding_ops() = default;

  /// f64 [2]: the place of the first index outside [0, below), counted row-major, and that index; place -1 for none.
  virtual tensor find_outside(const tensor& indices, std::int64_t below) = 0;

  /// table (rows, width), ids i64 (...) -> (..., width).
  virtual tensor embed(const tensor& table, const tensor& ids, const row_dropout& drop) = 0;
  /// The gradient of a table of that shape; 0 in row `padding`, where there is one (-1: none).
  virtual tensor embed_backward(const shape& table, const tensor& ids, const row_dropout& drop, const tensor& dy,
                                std::int64_t padding) = 0;

  /// x (B, T, F) + row t of a table of T rows or more, of F each, to every token t. In place when x is unique.
  virtual tensor add_rows(tensor x, const tensor& table) = 0;
  /// x (B, T, F) -> (B, T + 1, F): the row (F values) in front of every sequence.
  virtual tensor prepend_row(const tensor& x, const tensor& row) = 0;
  /// dy (B, T, F) summed over the batch, into as many rows of F as that shape has; those from T on are 0.
  virtual tensor sum_rows(const tensor& dy, const shape& table) = 0;

  /// x (B, T, F), positions i64 (B, P) -> (B, P, F).
  virtual tensor gather_rows(const tensor& x, const tensor& positions) = 0;
  /// The gradient of x of that shape.
  virtual tensor gather_rows_backward(const shape& x, const tensor& positions, const tensor& dy) = 0;
};

} // namespace penstock
