// Sums to ratios.
#include "kernels/model_metrics.hpp"

#include "kernels/check.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

namespace {

int showing(const model& net, const std::string& name) {
  int losses = 0;
  for (const auto& loss : net.losses()) {
    const auto shown = loss.op->shown();
    if (net.is_evaluated(loss) &&
        std::any_of(shown.begin(), shown.end(), [&](const auto& s) { return s.name == name; }))
      ++losses;
  }
  return losses;
}

// Of what a loss's unit counts; 0 where it has none.
double units_of(const model_loss& loss, const loss_metrics& metrics) {
  if (loss.options.unit.empty()) return 0;
  const auto sums = loss.op->sums();
  const auto at = std::find(sums.begin(), sums.end(), loss.options.unit + "s");
  check(at != sums.end(), "a loss whose unit it does not count");
  return metrics.sums[loss.first_sum + static_cast<std::size_t>(at - sums.begin())];
}

} // namespace

double mean_loss(const model& net, const loss_metrics& metrics, phase mode) {
  double sum = 0;
  for (const auto& loss : net.losses()) {
    const double count = metrics.counts[loss.count];
    if (count <= 0 || (mode == phase::evaluation && loss.options.training_only)) continue;
    sum += static_cast<double>(loss.options.weight) * (metrics.sums[loss.first_sum] / count);
  }
  return sum;
}

double loss_sum(const model& net, const std::vector<int>& losses, const loss_metrics& metrics) {
  double sum = 0;
  for (const int l : losses)
    sum += metrics.sums[net.losses()[static_cast<std::size_t>(l)].first_sum];
  return sum;
}

std::vector<shown_value> shown_values(const model& net, const loss_metrics& metrics, phase mode) {
  std::vector<shown_value> values;
  for (const auto& loss : net.losses()) {
    if (!net.is_evaluated(loss)) continue;
    if (const double units = units_of(loss, metrics); units > 0)
      values.push_back({"loss_per_" + loss.options.unit, metrics.sums[loss.first_sum] / units, false});
    for (const auto& s : loss.op->shown()) {
      if (mode == phase::training && !s.in_steps) continue;
      const double of = metrics.sums[loss.first_sum + s.of];
      const double by = s.by == shown_ratio::by_count ? metrics.counts[loss.count]
                                                      : metrics.sums[loss.first_sum + static_cast<std::size_t>(s.by)];
      const double ratio = by > 0 ? of / by : 0;
      values.push_back({showing(net, s.name) > 1 ? loss.name + "_" + s.name : s.name,
                        s.exponential ? std::exp(ratio) : ratio, !s.exponential});
    }
  }
  return values;
}

std::vector<shown_value> counted_units(const model& net, const loss_metrics& metrics) {
  std::vector<shown_value> counted;
  for (const auto& loss : net.losses())
    if (!loss.options.unit.empty()) counted.push_back({loss.options.unit + "s", units_of(loss, metrics), false});
  return counted;
}

} // namespace penstock
