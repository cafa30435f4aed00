// The dynamic programme of the flat search: for every state and slot the best that the rest of the model can do.
#pragma once

#include "planner/search/flat_bound.hpp"
#include "planner/search/flat_rows.hpp"

#include <memory>

namespace penstock::planner {

/// Costs of suffixes: of all stages from a slot on, which begins at a state. After solve(ceiling) every partition that
/// costs at most the ceiling is in it; dearer ones may be missing. With flush a suffix has three terms and many may be
/// worth keeping: where that takes more than a second or so, only the few of each kind that look best are kept from
/// then on, and the table is no longer exact.
class flat_table {
public:
  virtual ~flat_table() = default;
  virtual void solve(double ceiling) = 0;
  /// Least seconds of a partition whose stages before have these terms (links included) and whose next stage is on this
  /// slot, the first of exactly `stages` more (0 where they are not counted). Infinite if none is in the table.
  virtual double bound(const cost_terms& before, std::size_t slot, int state, int stages) const = 0;
};

struct flat_table_options {
  int most_stages = 0; ///< suffixes are kept by their number of stages, up to this; 0: not counted
  flat_goal goal = flat_goal::seconds;
};

/// Model and slots must outlive it.
std::unique_ptr<flat_table> make_flat_table(const stage_cost& model, const flat_slots& slots,
                                            const flat_table_options& options);

} // namespace penstock::planner
