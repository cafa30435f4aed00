// How well classes are told apart: accuracy and macro F1 from counts.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace penstock::apps {

/// Counts judgements; labels are any text (a number as text, a name).
class class_tally {
public:
  void add(const std::string& truth, const std::string& said);

  std::int64_t samples() const { return samples_; }
  /// Of all labels seen, true or said.
  std::size_t classes() const { return counts_.size(); }
  /// The share that is right; NaN of no samples.
  double accuracy() const;
  /// The mean over classes of 2 tp / (2 tp + fp + fn), as scikit-learn's f1_score(average="macro", zero_division=0)
  /// over every label that is true or said at least once; NaN of no samples.
  double macro_f1() const;

private:
  struct class_count {
    std::int64_t right = 0; ///< true and said
    std::int64_t truths = 0;
    std::int64_t said = 0;
  };
  std::map<std::string, class_count> counts_;
  std::int64_t samples_ = 0;
  std::int64_t right_ = 0;
};

} // namespace penstock::apps
