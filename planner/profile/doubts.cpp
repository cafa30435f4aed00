// Compares whole passes: noise in a single layer is no contradiction.
#include "planner/profile/doubts.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace penstock::planner {

namespace {

// Caches and fixed costs account for less than these.
constexpr double most_growth = 1.5;     // time per sample, from one size to the next
constexpr double least_growth = 0.8;    // time, from one size to the next
constexpr double most_speedup = 1.35;   // over the number of threads
constexpr double most_slowdown = 1.5;   // by more threads
constexpr double most_spread = 0.3;     // of the repeats
constexpr double least_seconds = 0.005; // below, a wake-up is a large part

double seconds_of(const measurement& m) {
  return std::accumulate(m.layers.begin(), m.layers.end(), 0.0,
                         [](double sum, const layer_cost& c) { return sum + c.forward_seconds + c.backward_seconds; });
}

std::string counted(std::int64_t count, const char* word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::string factor_text(double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", factor);
  return text;
}

void compare_sizes(const measurement& less, const measurement& more, std::vector<std::size_t> at,
                   std::vector<doubt>& found) {
  const auto ratio = seconds_of(more) / seconds_of(less);
  const auto share = static_cast<double>(more.samples) / static_cast<double>(less.samples);
  const auto threads = ", with " + counted(less.threads, "thread");
  if (ratio > most_growth * share)
    found.push_back({counted(more.samples, "sample") + " take " + factor_text(ratio) + " times as long as " +
                         std::to_string(less.samples) + threads,
                     std::move(at)});
  else if (ratio < least_growth)
    found.push_back({counted(more.samples, "sample") + " take less time than " + std::to_string(less.samples) + threads,
                     std::move(at)});
}

void compare_threads(const measurement& fewer, const measurement& more, std::vector<std::size_t> at,
                     std::vector<doubt>& found) {
  const auto speedup = seconds_of(fewer) / seconds_of(more);
  const auto share = static_cast<double>(more.threads) / static_cast<double>(fewer.threads);
  const auto text = counted(more.threads, "thread") + " are " + factor_text(speedup > 1 ? speedup : 1 / speedup) +
                    " times as " + (speedup > 1 ? "fast" : "slow") + " as " + std::to_string(fewer.threads) + ", at " +
                    counted(more.samples, "sample");
  if (speedup > most_speedup * share || speedup < 1 / most_slowdown) found.push_back({text, std::move(at)});
}

} // namespace

std::vector<doubt> doubts_of(const profile& p) {
  std::vector<doubt> found;
  const auto& all = p.measurements;
  for (std::size_t a = 0; a < all.size(); ++a) {
    if (seconds_of(all[a]) < least_seconds) continue;
    if (all[a].spread > most_spread)
      found.push_back({"repeats of " + counted(all[a].samples, "sample") + " with " +
                           counted(all[a].threads, "thread") + " differ by " +
                           std::to_string(static_cast<int>(100 * all[a].spread)) + "%",
                       {a}});
    const measurement* next = nullptr;
    std::size_t next_at = 0;
    for (std::size_t b = 0; b < all.size(); ++b) {
      if (seconds_of(all[b]) <= 0) continue;
      if (all[b].samples == all[a].samples && all[b].threads > all[a].threads)
        compare_threads(all[a], all[b], {a, b}, found);
      if (all[b].threads != all[a].threads || all[b].samples <= all[a].samples) continue;
      if (next != nullptr && next->samples <= all[b].samples) continue;
      next = &all[b];
      next_at = b;
    }
    if (next != nullptr) compare_sizes(all[a], *next, {a, next_at}, found);
  }
  return found;
}

} // namespace penstock::planner
