// The best of all losses but the last few.
#include "actors/policy/asgd_trigger.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::actors {

double asgd_trigger::bar() const {
  const auto counted = static_cast<std::int64_t>(seen_.losses.size()) - patience_;
  if (counted <= 0) return std::numeric_limits<double>::infinity();
  return *std::min_element(seen_.losses.begin(), seen_.losses.begin() + counted);
}

bool asgd_trigger::take(double loss, std::int64_t step) {
  if (seen_.switched_at >= 0) return false;
  if (!std::isfinite(loss)) loss = std::numeric_limits<double>::max();
  const bool is_worse = loss > bar();
  seen_.losses.push_back(loss);
  seen_.last_at = step;
  if (is_worse) seen_.switched_at = step;
  return is_worse;
}

} // namespace penstock::actors
