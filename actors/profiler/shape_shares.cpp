// Looks through the facts of an epoch's minibatches; none is loaded.
#include "actors/profiler/shape_shares.hpp"

#include "actors/source/data_binding.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace penstock::actors {

namespace {

constexpr std::int64_t most_looks = 4096;

using shape_counts = std::vector<std::pair<std::vector<std::int64_t>, double>>;

// Shares of an epoch, shorter shapes first.
shape_counts count(const model& net, const dataset& data, const batching& how) {
  const auto binding = bind_data(net, data);
  const auto minibatches = data.minibatches(how);
  const auto looks = std::min(minibatches->per_epoch(), most_looks);
  std::map<std::vector<std::int64_t>, double> counts;
  for (std::int64_t i = 0; i < looks; ++i) {
    const auto facts = minibatches->facts(i * minibatches->per_epoch() / looks);
    const auto extents = binding.info(net, facts, facts.samples).extents;
    counts[{extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(net.extents().size())}] +=
        1 / static_cast<double>(looks);
  }
  shape_counts sorted(counts.begin(), counts.end());
  const auto size = [](const auto& s) { return std::accumulate(s.first.begin(), s.first.end(), std::int64_t{0}); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return size(a) < size(b); });
  return sorted;
}

std::vector<shape_share> exact(const shape_counts& counts) {
  std::vector<shape_share> shares;
  for (const auto& [extents, share] : counts)
    shares.push_back({extents, share});
  return shares;
}

// Neighbours become one until each has its part of the epoch.
std::vector<shape_share> grouped(const shape_counts& counts, std::size_t most) {
  std::vector<shape_share> shares, group;
  double done = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    group.push_back({counts[i].first, counts[i].second});
    done += counts[i].second;
    const bool is_full = done * static_cast<double>(most) >= static_cast<double>(shares.size() + 1) - 1e-9;
    if (!is_full && i + 1 < counts.size()) continue;
    double sum = 0;
    for (const auto& g : group)
      sum += g.share;
    shares.push_back({mean_extents(group), sum});
    group.clear();
  }
  return shares;
}

} // namespace

std::vector<shape_share> shape_shares(const model& net, const dataset& data, const batching& how, std::size_t most) {
  if (net.extents().empty()) return {};
  const auto counts = count(net, data, how);
  auto shares = counts.size() <= most ? exact(counts) : grouped(counts, most);
  auto largest = counts.front().first;
  for (const auto& [extents, share] : counts)
    for (std::size_t e = 0; e < extents.size(); ++e)
      largest[e] = std::max(largest[e], extents[e]);
  if (std::none_of(shares.begin(), shares.end(), [&](const auto& s) { return s.extents == largest; }))
    shares.push_back({largest, 0});
  return shares;
}

std::vector<std::int64_t> mean_extents(const std::vector<shape_share>& shares) {
  if (shares.empty()) return {};
  double all = 0;
  std::vector<double> sums(shares.front().extents.size(), 0);
  for (const auto& s : shares) {
    all += s.share;
    for (std::size_t e = 0; e < sums.size(); ++e)
      sums[e] += s.share * static_cast<double>(s.extents[e]);
  }
  std::vector<std::int64_t> mean;
  for (const double sum : sums)
    mean.push_back(std::max<std::int64_t>(1, std::llround(sum / all)));
  return mean;
}

} // namespace penstock::actors
