// When a run begins to average its weights: AWD-LSTM's rule (Merity, Keskar and Socher, arXiv:1708.02182, algorithm 1).
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::actors {

/// Looks at each evaluation's loss and switches once, when one is worse than the best of all before it but the last
/// `patience`: further training at one rate no longer pays. A function of the losses alone, so ranks that see the same
/// ones agree.
class asgd_trigger {
public:
  /// What a checkpoint keeps.
  struct history {
    std::vector<double> losses;    ///< of evaluations, until it switched
    std::int64_t last_at = -1;     ///< minibatches done at the last of them
    std::int64_t switched_at = -1; ///< the same of the switch; -1: there was none

    bool operator==(const history&) const = default;
  };

  explicit asgd_trigger(std::int64_t patience) : patience_(patience) {}

  /// Of an evaluation after so many minibatches; a loss that is not finite counts as very bad. True when it switches
  /// now.
  bool take(double loss, std::int64_t step);
  /// The loss that the next one is measured by; infinite while there are too few.
  double bar() const;
  const history& seen() const { return seen_; }
  void resume(history from) { seen_ = std::move(from); }

private:
  std::int64_t patience_;
  history seen_;
};

} // namespace penstock::actors
