// BERT, as Hugging Face names it, with one of its heads.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

/// Inputs: input_ids and token_type_ids i64 (B, T), lengths i64 (B), and those of the head:
/// classification: labels (B);
/// span: start_positions and end_positions (B), of which those of T or more count for nothing;
/// pretraining: masked_positions and masked_labels (B, P), padded with labels of -100, and next_sentence_label (B);
/// embed: none; its result "embedding" (B, H) is the mean over the tokens, not yet of unit length.
model_entry bert_entry();

} // namespace penstock::apps
