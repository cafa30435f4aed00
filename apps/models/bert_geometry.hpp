// Sizes and rates of a BERT, by name or from a Hugging Face config.json.
#pragma once

#include "apps/models/registry.hpp"
#include "kernels/layers/activation.hpp"

namespace penstock::apps {

struct bert_geometry {
  std::int64_t vocabulary = 30522;
  std::int64_t layers = 12;
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  std::int64_t inner = 3072; ///< between the two products of a layer's second half
  std::int64_t positions = 512;
  std::int64_t types = 2;
  std::int64_t padding_row = 0; ///< of the word embeddings; -1: none
  float hidden_dropout = 0.1F;
  float attention_dropout = 0.1F;
  float head_dropout = 0.1F; ///< before a classifier
  float epsilon = 1e-12F;
  float deviation = 0.02F; ///< of initial weights
  layers::gelu_form gelu = layers::gelu_form::erf;
};

/// Of options --size, --hf-config and --gelu, --width, --dropout and the vocabulary that a tokenizer brings. Throws
/// usage_error that begins with the option; of a config everything that is not supported, in one line.
bert_geometry bert_geometry_of(const model_options& options);

} // namespace penstock::apps
