// Medians without sorting everything.
#include "tools/trace/statistics.hpp"

#include <algorithm>
#include <cstddef>

namespace penstock::actors {

namespace {

template <class Value>
double median_of(std::vector<Value>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return static_cast<double>(*middle);
  return (static_cast<double>(*middle) + static_cast<double>(*std::max_element(values.begin(), middle))) / 2;
}

} // namespace

double median(std::vector<std::int64_t> values) {
  return median_of(values);
}

double median(std::vector<double> values) {
  return median_of(values);
}

} // namespace penstock::actors
