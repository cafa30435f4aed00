// How long the layers of a model took, pass by pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace penstock::actors {

/// 0 of nothing.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// One direction of one kind of pass: each layer's durations and those of the whole.
struct pass_times {
  std::vector<std::vector<double>> layers;
  std::vector<double> whole;

  explicit pass_times(std::size_t count) : layers(count) {}

  // What lies between the layers, and the loss, counts to the last one.
  void add(const std::vector<double>& of_layers, double total) {
    const auto outside = std::max(0.0, total - std::accumulate(of_layers.begin(), of_layers.end(), 0.0));
    for (std::size_t l = 0; l < layers.size(); ++l)
      layers[l].push_back(of_layers[l] + (l + 1 == layers.size() ? outside : 0));
    whole.push_back(total);
  }
  // Of the middle half of the passes, over their median.
  double spread() const {
    if (whole.size() < 3) return 0;
    auto sorted = whole;
    std::sort(sorted.begin(), sorted.end());
    const auto quarter = sorted.size() / 4;
    const auto middle = sorted[sorted.size() / 2];
    return middle > 0 ? (sorted[sorted.size() - 1 - quarter] - sorted[quarter]) / middle : 0;
  }
  // Medians of layers, scaled so that they sum to the median of the whole: noise lengthens a different layer each time.
  std::vector<double> medians() const {
    std::vector<double> m;
    for (const auto& durations : layers)
      m.push_back(median(durations));
    const double sum = std::accumulate(m.begin(), m.end(), 0.0);
    const double factor = sum > 0 ? median(whole) / sum : 1;
    for (auto& seconds : m)
      seconds *= factor;
    return m;
  }
};

struct size_times {
  explicit size_times(std::size_t layers) : forward(layers), backward(layers), accumulating(layers) {}
  pass_times forward, backward, accumulating;
  std::vector<double> update;
  std::vector<std::vector<double>> weight_share{forward.layers.size()}; // of a split backward, by layer
};

} // namespace penstock::actors
