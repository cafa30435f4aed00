// Sentences translated by GNMT through the stages of a pipeline.
#pragma once

#include "actors/inference/inference_pipeline.hpp"
#include "apps/models/gnmt_decoding.hpp"
#include "apps/translation/beam_search.hpp"

#include <atomic>

namespace penstock::apps {

struct translator_options {
  actors::inference_options pipeline;
  search_options search;
  std::int64_t batch = 32; ///< sentences that are translated together
};

/// Sentences of about the same length go together. The encoder runs once for them; then each step runs the decoder for
/// one token of every hypothesis that goes on, with the LSTMs' states that belong to it. One batch more than there are
/// stages is under way, so that stages compute while hypotheses are weighed.
class translator {
public:
  /// `weights`: of the whole model, plain f32 by name.
  translator(const gnmt_geometry& geometry, const named_tensors& weights, const translator_options& options);

  /// Of sources from BOS to EOS, none empty, the best translations in their order; nothing at all once `stop` is set.
  /// The same for any number of stages. Throws error when a stage fails or none answers for ten minutes.
  std::vector<translated> translate(const std::vector<token_ids>& sources, const std::atomic<bool>& stop);

private:
  struct batch;
  class answers;
  std::vector<std::shared_ptr<batch>> batches_of(const std::vector<token_ids>& sources) const;
  void encode(const std::shared_ptr<batch>& b, const std::shared_ptr<answers>& to);
  void step(const std::shared_ptr<batch>& b, const std::shared_ptr<answers>& to);

  translator_options options_;
  gnmt_geometry geometry_;
  gnmt_parts parts_;
  memory_pool pool_;
  actors::inference_pipeline pipeline_;
};

} // namespace penstock::apps
