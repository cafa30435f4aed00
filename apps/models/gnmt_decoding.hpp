// GNMT in the two parts that translate: one reads a sentence, one writes the next token.
#pragma once

#include "apps/models/gnmt_geometry.hpp"
#include "kernels/model.hpp"

#include <memory>

namespace penstock::apps {

/// Their parameters have the names that the whole model gives them, and are all of those.
struct gnmt_parts {
  /// source i64 (B, source_time), source_lengths i64 (B) -> encoded (B, source_time, H) and keys, what attention makes
  /// of it once for all steps, alike.
  std::shared_ptr<const model> encoder;
  /// target i64 (B, 1), source_lengths i64 (B), encoded, keys, then h and c of each layer (B, H), all h first -> logits
  /// (B, 1, vocabulary), their softmax, attention (B, 1, source_time), then h and c after the step.
  std::shared_ptr<const model> step;
};
gnmt_parts gnmt_parts_of(gnmt_geometry geometry);

} // namespace penstock::apps
