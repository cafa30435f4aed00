// Sums to ratios.
#include "kernels/model_metrics.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

namespace {

bool is_shown(const model& net, const model_loss& loss) {
  return !loss.options.training_only || &loss == &net.losses().front();
}

int showing(const model& net, const std::string& name) {
  int losses = 0;
  for (const auto& loss : net.losses()) {
    const auto shown = loss.op->shown();
    if (is_shown(net, loss) && std::any_of(shown.begin(), shown.end(), [&](const auto& s) { return s.name == name; }))
      ++losses;
  }
  return losses;
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
    if (!is_shown(net, loss)) continue;
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

} // namespace penstock
