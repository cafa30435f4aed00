// What a stage costs from one state to later ones, for all slots: the innermost numbers of the flat search.
#pragma once

#include "planner/search/flat_slots.hpp"

#include <cstdint>
#include <vector>

namespace penstock::planner {

enum class flat_goal : std::uint8_t {
  seconds,     ///< the cost model's, memory as feasibility
  excess_bytes ///< by how much the fullest device misses, as `most`
};

/// Terms by the state that a stage ends at; `most` is infinite where it does not fit or there is no such stage.
struct flat_row {
  std::vector<double> sum, most, tail;
};

class flat_rows {
public:
  /// Both must outlive it.
  flat_rows(const stage_cost& model, const flat_slots& slots, flat_goal goal);

  /// Stages that begin at this state from now on.
  void begin(int state);
  /// Of a slot that other stages follow, to the states from `first` (after the one begun) to `end` (not the last).
  /// Valid until the next call; cheap for slots in the order of order().
  const flat_row& row(std::size_t slot, int first, int end);
  /// One stage on a slot, whatever state was begun.
  cost_terms between(std::size_t slot, int from, int to) const;
  /// Slots that cost the same side by side.
  const std::vector<std::size_t>& order() const { return order_; }

private:
  struct range { // of states, filled so far
    int first = 0;
    int end = 0;
  };
  struct ends { // of one type, by the state that a stage ends at
    range filled;
    int replicas = 0; // that the loads are for, where that matters
    std::vector<stage_load> loads;
    std::vector<std::vector<std::int64_t>> most; // K that fits, by the model's options
  };
  template <class Fill>
  static void extend(range& filled, int first, int end, Fill fill);
  ends& loads_of(const flat_slot& slot, int first, int end);
  bool costs_alike(std::size_t a, std::size_t b) const;
  void fill(flat_row& row, const flat_slot& slot, const ring_cost& ring, const stage_options& how, int first,
            int end) const;
  static bool may_take(const stage_options& how, const flat_slot& slot);
  const flat_row& fastest_without_limit(const flat_slot& slot) const;
  void choose(const flat_slot& slot, std::int64_t in_flight, int first, int end);
  void fill_excess(const flat_slot& slot, std::int64_t in_flight, int first, int end);

  const stage_cost& model_;
  const flat_slots& slots_;
  flat_goal goal_;
  std::vector<std::size_t> order_;
  int state_ = 0;
  std::vector<ends> ends_;      // per type
  std::size_t filled_slot_ = 0; // rows_ are of slots that cost like this one
  range filled_;
  std::vector<flat_row> rows_; // by the model's options
  flat_row chosen_;
};

} // namespace penstock::planner
