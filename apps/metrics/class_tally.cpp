// Counts per class, and what is made of them.
#include "apps/metrics/class_tally.hpp"

namespace penstock::apps {

void class_tally::add(const std::string& truth, const std::string& said) {
  ++samples_;
  ++counts_[truth].truths;
  ++counts_[said].said;
  if (truth != said) return;
  ++right_;
  ++counts_[truth].right;
}

double class_tally::accuracy() const {
  return static_cast<double>(right_) / static_cast<double>(samples_);
}

double class_tally::macro_f1() const {
  double sum = 0;
  for (const auto& [label, count] : counts_) // 2 tp + fp + fn is what is true and what is said
    sum += 2.0 * static_cast<double>(count.right) / static_cast<double>(count.truths + count.said);
  return sum / static_cast<double>(counts_.size());
}

} // namespace penstock::apps
