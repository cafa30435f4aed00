// One level of the hierarchical search: the best pipeline over the parts of a component, for every range of states.
#pragma once

#include <cstddef>
#include <vector>

namespace penstock::planner {

/// What a stage costs at one level. A component has `parts` parts; a stage takes some of them, and the stages of a
/// component are a pipeline. States are 0 .. states - 1. Seconds; infinite where something cannot be.
struct level_costs {
  int states = 0;
  int parts = 0;
  std::vector<double> stage;     ///< [part count - 1][to][from]: seconds of a stage from < to on so many parts
  std::vector<double> inner_cut; ///< [part count - 1][state]: what a stage pays for a cut between it and a neighbour
  std::vector<double> outer_cut; ///< [part count - 1][state]: the same at the component's own ends
  double limit = 0;              ///< whatever costs as much or more is not looked for
  /// Sums up to each state, of as many kinds as there are: nothing from one state to another on m parts costs less than
  /// their difference / m. What this rules out under the limit is not looked at, and `stage` need not be there.
  std::vector<std::vector<double>> at_least;

  /// What no pipeline from one state to another on one part costs less than; on m parts, a share of it.
  double least(int from, int to) const;
  double stage_at(int used, int from, int to) const { return stage[index(used, to) + static_cast<std::size_t>(from)]; }
  double inner_at(int used, int state) const { return inner_cut[index(used) + static_cast<std::size_t>(state)]; }
  double outer_at(int used, int state) const { return outer_cut[index(used) + static_cast<std::size_t>(state)]; }
  std::size_t index(int used) const { return static_cast<std::size_t>(used - 1) * static_cast<std::size_t>(states); }
  std::size_t index(int used, int to) const {
    return (index(used) + static_cast<std::size_t>(to)) * static_cast<std::size_t>(states);
  }
};

struct level_stage {
  int from = 0;
  int to = 0;
  int parts = 0;
  bool operator==(const level_stage&) const = default;
};

struct level_pipeline {
  double seconds = 0;
  std::vector<level_stage> stages; ///< in the model's order; empty where nothing fits
};

/// PipeDream's A^k (SOSP'19 section 3.1) of one level, exact over `level_costs`:
///
///     A(i -> j, m) = min( T(i -> j, m), min over s, m' of max( A(i -> s, m - m'), T(s -> j, m') ) )
///
/// where T takes in what a stage pays for the cuts at its two ends.
class level_recurrence {
public:
  explicit level_recurrence(level_costs costs);

  /// [to][from]: seconds of the best pipeline over all parts, cut off at both ends by outer cuts.
  std::vector<double> best_of_all_ranges() const;
  /// That of one range, with its stages.
  level_pipeline best(int from, int to) const;
  /// Of the whole model on exactly `parts` parts: the best pipeline for every number of stages (1, 2, ...), and for two
  /// stages the best for every split of the parts. Without those over the limit.
  std::vector<level_pipeline> best_by_shape(int parts) const;

private:
  struct row;
  row solve(int from, int last, int parts, const row* shorter = nullptr) const;
  std::vector<level_stage> stages_of(const std::vector<const row*>& rows, int to) const;

  level_costs costs_;
  std::vector<double> middle_;    // as level_costs::stage, with the inner cut at `from` taken in
  std::vector<double> least_yet_; // running minimum of middle_ over `from`
};

} // namespace penstock::planner
