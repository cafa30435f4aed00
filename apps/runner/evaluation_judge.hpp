// What an evaluation says beside its losses: of the model's results as a whole.
#pragma once

#include "actors/trainer.hpp"

#include <memory>

namespace penstock::apps {

/// Takes the results of an evaluation's minibatches, in any order. One thread at a time.
class evaluation_judge {
public:
  virtual ~evaluation_judge() = default;
  virtual void take(const actors::batch_results& results) = 0;
  /// Of all that was taken since the last time.
  virtual std::vector<shown_value> finish() = 0;
};

/// Macro F1 over the classes of a model that puts out its one loss's logits; exact match and F1 over the questions of
/// `squad:` data, each answered by the best span of at most 30 tokens that lies in the text, over all its windows:
/// start not behind end, the sum of both logits greatest. Null for other models and data. `test` must outlive it.
std::unique_ptr<evaluation_judge> judge_of(const model& net, const actors::dataset* test,
                                           const actors::run_options& run);

} // namespace penstock::apps
