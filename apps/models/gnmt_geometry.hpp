// Sizes, rates and the two published forms of GNMT.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

/// Where dropout stands and how weights begin. They differ between the two programs that trained GNMT in public.
enum class gnmt_form : std::uint8_t {
  pipedream, ///< dropout between LSTMs only, before the context is joined; PyTorch's default initial values
  mlperf     ///< dropout before every LSTM, embeddings and the context included; all U(+-0.1), bias_hh 0
};

struct gnmt_geometry {
  std::int64_t layers = 4; ///< of the encoder, and of the decoder
  std::int64_t hidden = 1024;
  std::int64_t vocabulary = 32320; ///< of both languages: 32,000 merges, filled to a multiple of 8
  float dropout = 0.2F;
  gnmt_form dropout_places = gnmt_form::pipedream;
  gnmt_form initial_values = gnmt_form::pipedream;
  bool tied = false; ///< one table for both languages
  std::int64_t source_length = 50;
  std::int64_t target_length = 50;
};

/// On each side: 4 of gnmt8, 8 of gnmt16, 16 of gnmt_large unless it is told.
std::int64_t gnmt_layers(const std::string& model);

/// Of options --tied, --dropout-places, --initial-values, --target-length, --length, --width, --dropout, the
/// vocabulary, and --layers where the model has it, else `layers`. Throws usage_error that begins with the option.
gnmt_geometry gnmt_geometry_of(const std::string& model, std::int64_t layers, const model_options& options);

} // namespace penstock::apps
