// GNMT (Wu et al., arXiv:1609.08144) as MLPerf has it in its second version, with MLPerf's names: LSTMs that read a
// sentence, LSTMs that write its translation, one attention between them.
#pragma once

#include "apps/models/gnmt_geometry.hpp"
#include "kernels/model_builder.hpp"

namespace penstock::apps {

/// Inputs: source i64 (B, source_time), source_lengths i64 (B), target_in and labels i64 (B, target_time): the target
/// behind its beginning token, and the same one place on, where what is padded (0) counts for nothing. The loss is
/// divided by sentences, as both published programs have it; its sums count tokens.
model_entry gnmt8_entry();
model_entry gnmt16_entry();
model_entry gnmt_large_entry(); ///< --layers on each side

/// Source ids i64 (B, S) and their lengths i64 (B) -> what attention reads, (B, S, H). Nothing counts beyond the
/// lengths.
value_id gnmt_encoder(model_builder& b, const gnmt_geometry& g, value_id source, value_id lengths);

/// What the decoder's LSTMs, the first one first, remember of the steps before: (B, H) each, layers of each kind.
struct gnmt_memory {
  std::vector<value_id> h, c;
};

struct gnmt_decoder_options {
  /// To write word by word: what the LSTMs begin with, and then the result has what they end with; else zeros.
  const gnmt_memory* memory = nullptr;
  /// The encoder's result as "decoder.att_rnn.attn.linear_k" projects it, in a layer of its own; none: attention does.
  std::optional<value_id> keys{};
  bool probabilities = false; ///< the result has attention's too
  bool alone = false;         ///< there is no encoder in this model whose table a tied one could be
};

struct gnmt_decoded {
  value_id logits{}; ///< (B, T, vocabulary)
  gnmt_memory memory;
  value_id probabilities{}; ///< (B, T, S)
};

/// Target ids i64 (B, T), gnmt_encoder's result or an input like it (B, S, H), source lengths i64 (B).
gnmt_decoded gnmt_decoder(model_builder& b, const gnmt_geometry& g, value_id target, value_id encoded, value_id lengths,
                          const gnmt_decoder_options& options = {});

} // namespace penstock::apps
