// Units from a model's marks, or from its layers.
#include "actors/freeze/freeze_units.hpp"

namespace penstock::actors {

namespace {

std::vector<int> marks_of(const model& net) {
  if (!net.freeze_units().empty()) return net.freeze_units();
  std::vector<int> marks;
  for (int l = 0; l < static_cast<int>(net.layers().size()); ++l)
    if (!net.parameters(l).empty()) marks.push_back(l);
  return marks;
}

} // namespace

freeze_units::freeze_units(const model& net) : net_(&net) {
  const auto marks = marks_of(net);
  for (std::size_t m = 0; m + 1 < marks.size(); ++m) {
    if (marks[m] == marks[m + 1]) continue;
    freeze_unit unit;
    unit.name = net.layers()[static_cast<std::size_t>(marks[m])].name;
    unit.first = units_.empty() ? 0 : marks[m];
    unit.last = marks[m + 1];
    unit.parameters = net.parameter_count(0, unit.last) - net.parameter_count(0, unit.first);
    units_.push_back(std::move(unit));
  }
}

std::string freeze_units::frozen_until(int depth) const {
  return depth == 0 ? "" : net_->layers()[static_cast<std::size_t>(layers_at(depth))].name;
}

int freeze_units::depth_within(int layers) const {
  int depth = 0;
  while (depth < count() && layers_at(depth + 1) <= layers)
    ++depth;
  return depth;
}

int freeze_units::deepest(int depth) const {
  while (depth > 0 && net_->tie_across(layers_at(depth)) != nullptr)
    --depth;
  return depth;
}

std::string freeze_units::held_by(int depth) const {
  const auto* tie = depth > 0 ? net_->tie_across(layers_at(depth)) : nullptr;
  return tie == nullptr ? "" : tie->name;
}

} // namespace penstock::actors
