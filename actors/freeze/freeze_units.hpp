// What of a model may freeze.
#pragma once

#include "kernels/model.hpp"

namespace penstock::actors {

/// Layers [first, last) of the model's order.
struct freeze_unit {
  std::string name; ///< of the layer that begins it
  int first = 0;
  int last = 0;
  std::int64_t parameters = 0; ///< numbers that it learns; a tensor that several units use counts in the first
};

/// Depth d freezes the first d units, with whatever stands before the first one.
class freeze_units {
public:
  /// The model's own units, but the last one: the head, which has the loss, never freezes. A model that declares none
  /// has one for each layer that has parameters, with those behind it that have none.
  explicit freeze_units(const model& net);

  const std::vector<freeze_unit>& all() const { return units_; }
  int count() const { return static_cast<int>(units_.size()); }
  /// Layers that are frozen at that depth.
  int layers_at(int depth) const { return depth == 0 ? 0 : units_.at(static_cast<std::size_t>(depth) - 1).last; }
  /// The name of the first layer that is active at that depth; "" at depth 0.
  std::string frozen_until(int depth) const;
  /// The greatest depth that freezes no more layers than that.
  int depth_within(int layers) const;
  /// The greatest depth, at most that one, at which no tensor is frozen that an active layer uses too.
  int deepest(int depth) const;
  /// The tensor that keeps deepest(depth) above; "" where none does.
  std::string held_by(int depth) const;

private:
  const model* net_;
  std::vector<freeze_unit> units_;
};

} // namespace penstock::actors
