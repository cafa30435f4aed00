// Statistics for tests, from a few numbers.
#pragma once

#include "actors/freeze/freeze_policy.hpp"

namespace penstock::actors::test {

/// Units with these norms, and those before where they are given, `depth` of them frozen.
inline freeze_statistics seen(std::vector<double> norms, int depth = 0, const std::vector<double>& before = {}) {
  freeze_statistics s;
  s.depth = depth;
  for (std::size_t u = 0; u < norms.size(); ++u) {
    freeze_unit_seen unit{.name = "unit" + std::to_string(u), .parameters = 10, .gradient_norm = norms[u]};
    if (u < before.size()) unit.norm_before = before[u];
    s.units.push_back(std::move(unit));
  }
  return s;
}

} // namespace penstock::actors::test
