// The spellings of BERT's weights that are in use.
#pragma once

#include "kernels/weights_adapter.hpp"

namespace penstock::apps {

/// Files with or without "bert.", LayerNorm.gamma and beta, position_ids (which are no weights), a decoder that is left
/// out because it is the word embeddings. A head that the file lacks is drawn anew; one that the model lacks is left
/// out.
adapted_weights adapt_bert_weights(const model& net, safetensors_contents& file);

} // namespace penstock::apps
