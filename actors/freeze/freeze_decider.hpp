// Decides at the end of each interval how much is frozen from there on: statistics, policy, guards, ties. No actor,
// thread or clock.
#pragma once

#include "actors/freeze/freeze_guards.hpp"
#include "actors/freeze/freeze_units.hpp"
#include "actors/freeze/gradient_sums.hpp"

namespace penstock::actors {

/// One decision with every number that made it.
struct freeze_decision {
  std::int64_t number = 1; ///< of the run
  std::string policy;      ///< who was asked, and its guards
  std::string guards;
  freeze_statistics seen;
  int asked = 0;   ///< the policy's answer
  int depth = 0;   ///< what became of it: units that are frozen from here on
  std::string why; ///< the guard or the tied tensor that decided otherwise; "" where none did
  bool thaws = false;
  std::string frozen_until; ///< the first active layer; "" where nothing is frozen

  bool changes() const { return depth != seen.depth; }
};

/// What is known between decisions: a decider that is given it goes on.
struct freeze_history {
  std::int64_t decisions = 0;
  std::int64_t interval = 0; ///< freeze_statistics::interval of the last one; 0 after a thaw
  int depth = 0;
  double rate_at_freeze = not_seen;
  double best_validation = not_seen;  ///< since the run began or was thawed
  std::vector<double> norms_before{}; ///< of units, of the last interval; empty: none
  // Of the interval at hand.
  double losses = 0; ///< sum over its minibatches
  std::int64_t minibatches = 0;
  double validation_loss = not_seen;
  gradient_sums gradients{};
};

/// Where a decision is made.
struct freeze_point {
  std::int64_t step = 0; ///< minibatches of the whole run that are done
  double epochs = 0;
  double learning_rate = 0; ///< of the next minibatch
};

class freeze_decider {
public:
  /// Throws usage_error where nothing of the model may freeze.
  freeze_decider(const model& net, freeze_policy_ptr policy, freeze_guards guards);

  /// Of `minibatches` minibatches that were trained, the sum of their losses.
  void add_losses(double sum, std::int64_t minibatches);
  void add_evaluation(double loss);
  void add_gradients(const gradient_sums& sums) { add(sums, history_.gradients); }
  /// Ends the interval. Throws penstock::error for an answer out of range.
  freeze_decision decide(const freeze_point& at);
  /// What another run decided here, in place of decide().
  void repeat(const freeze_decision& decided);

  const freeze_units& units() const { return units_; }
  const freeze_history& seen() const { return history_; }
  void resume(freeze_history from) { history_ = std::move(from); }

private:
  freeze_statistics statistics(const freeze_point& at) const;
  void begin_interval(const freeze_decision& after);

  const model* net_;
  freeze_units units_;
  freeze_policy_ptr policy_; // null: decisions are repeated
  freeze_guards guards_;
  freeze_history history_;
};

/// "1 of 3 units frozen, all before LAYER after step 2 (POLICY asked for 1)", for the log.
std::string text_of(const freeze_decision& decision);

} // namespace penstock::actors
