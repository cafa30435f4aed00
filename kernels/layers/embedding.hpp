// Embeddings: rows of learnt tables, by number or by place.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

struct embedding_options {
  std::int64_t padding_row = -1; ///< starts at 0 and gets no gradient; -1: there is none
  initializer init{initializer_kind::normal, 1.0F};
  /// The probability that a row is left out of a micro-batch wherever it stands, the rest scaled by 1 / (1 - p), in
  /// training (Gal and Ghahramani 2016; AWD-LSTM's).
  float row_dropout = 0;
};

/// Ids i64 (...) -> (..., width). Parameter weight (rows, width), as torch.nn.Embedding. An id outside the table is
/// told
/// ("[layer] embeddings: token id 31000 at row 3, position 17; wanted 0 to 30521") and reads zeros.
layer_ptr embedding(std::int64_t rows, std::int64_t width, embedding_options options = {});

struct positions_options {
  initializer init{initializer_kind::normal, 1.0F};
  std::string name = "weight"; ///< "": the parameter is called like the layer
  bool leading_axis = false;   ///< the parameter is (1, most, width), as in vision transformers, not (most, width)
};

/// (B, T, width) -> the same, row t of a learnt table of `most` rows added to every token t. T above `most` is refused.
layer_ptr positions(std::int64_t most, std::int64_t width, positions_options options = {});

/// (B, N, width) -> (B, N + 1, width): a learnt row in front of every sequence. The parameter, (1, 1, width) as in
/// torchvision, is called like the layer.
layer_ptr class_token(std::int64_t width, initializer init = {});

} // namespace penstock::layers
