// Layers that only move elements: images to sequences, tokens taken out, parts of an axis, axes swapped, features side
// by side.
#pragma once

#include "kernels/layer.hpp"

namespace penstock::layers {

/// Images (B, C, H, W) -> (B, H W, C), row after row: a vision transformer's patches.
layer_ptr to_sequence();

/// (B, T, F) -> (B, F): that token of every sequence, counted from 0.
layer_ptr select_token(std::int64_t index);

/// (B, T, F) and positions i64 (B, P) -> (B, P, F). A position outside the sequence is told, as a token id is by
/// embedding, and reads zeros.
layer_ptr gather_rows();

/// [begin, end) of that axis, 1 or later, of a tensor of any rank but 4 and of any type. `end` may be counted from the
/// end of the axis: 0 is all of it, -1 all but the last.
layer_ptr slice(std::size_t axis, std::int64_t begin, std::int64_t end);

/// Two axes, 1 or later, of a tensor of any rank but 4, swapped.
layer_ptr transpose(std::size_t one, std::size_t other);

/// Two or more (..., F_i) that are equal but for F_i -> (..., sum of F_i). `concat` is the same along channels.
layer_ptr concat_features();

/// (..., F) -> as many as there are sizes, (..., size), whose sum is F.
layer_ptr split_features(std::vector<std::int64_t> sizes);

} // namespace penstock::layers
