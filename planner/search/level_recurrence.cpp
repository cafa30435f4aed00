// The recurrence of one level, and where its inner loop may stop.
#include "planner/search/level_recurrence.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock::planner {

namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();

// Deeper pipelines of whole groups than this are left to best().
constexpr int most_stages_by_shape = 32;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

} // namespace

// The best pipelines that begin at one state: on fewer than all parts with a neighbour to the right of them in the same
// component, on all parts up to the component's own end.
struct level_recurrence::row {
  row(int start, int all_parts, int all_states)
      : from(start), parts(all_parts), states(all_states), seconds(at(parts + 1) * at(states), infinity),
        least_on(seconds), last_from(seconds.size(), -1), last_parts(seconds.size(), 0) {}

  std::size_t index(int used, int to) const { return at(used) * at(states) + at(to); }

  int from;
  int parts;
  int states;
  int stages = -1;              // exactly so many; -1: any number
  std::vector<double> seconds;  // [parts used][to]
  std::vector<double> least_on; // the least of `seconds` from there to the last one known
  std::vector<int> last_from;   // of the last stage; -1 where there is no pipeline
  std::vector<int> last_parts;
};

level_recurrence::level_recurrence(level_costs costs)
    : costs_(std::move(costs)), middle_(costs_.stage), least_yet_(costs_.stage.size(), infinity) {
  for (int used = 1; used <= costs_.parts; ++used)
    for (int first = 0, to = 1; to < costs_.states; ++to) {
      while (first < to && costs_.least(first, to) >= costs_.limit * used)
        ++first;
      auto least = infinity;
      for (int from = first; from < to; ++from) {
        auto& here = middle_[costs_.index(used, to) + at(from)];
        here = std::max(here, costs_.inner_at(used, from));
        least = std::min(least, here);
        least_yet_[costs_.index(used, to) + at(from)] = least;
      }
    }
}

double level_costs::least(int from, int to) const {
  constexpr double rounding = 1 - 1e-9;
  double most = 0;
  for (const auto& sums : at_least)
    most = std::max(most, rounding * (sums[at(to)] - sums[at(from)]));
  return most;
}

// Pipelines of one stage more than those of `shorter`; without it, of any number of stages.
level_recurrence::row level_recurrence::solve(int from, int last, int parts, const row* shorter) const {
  row r(from, parts, costs_.states);
  if (shorter != nullptr) r.stages = shorter->stages + 1;
  const auto& left = shorter != nullptr ? *shorter : r;
  const auto may_be_alone = shorter == nullptr || shorter->stages == 0;
  // Left of the crossing the last stage decides, right of it what comes before. It moves right with `to`.
  std::vector<int> crossing(at(parts + 1) * at(parts + 1), from);
  for (int to = from + 1; to <= last; ++to) {
    const auto least = costs_.least(from, to);
    if (least >= costs_.limit * parts) break;
    for (int m = 1; m <= parts; ++m) {
      if (least >= costs_.limit * m) continue;
      const auto& cut = m < parts ? costs_.inner_cut : costs_.outer_cut;
      auto best = costs_.limit;
      int best_from = -1, best_parts = 0;
      if (may_be_alone)
        if (const auto alone =
                std::max({costs_.stage_at(m, from, to), costs_.outer_at(m, from), cut[costs_.index(m) + at(to)]});
            alone < best)
          best = alone, best_from = from, best_parts = m;
      for (int used = 1; used < m; ++used) {
        const auto end = cut[costs_.index(used) + at(to)];
        if (end >= best) continue;
        const auto* before = &left.seconds[left.index(m - used, 0)];
        const auto* least_on = &left.least_on[left.index(m - used, 0)];
        const auto* after = &middle_[costs_.index(used, to)];
        const auto* least_yet = &least_yet_[costs_.index(used, to)];
        auto& middle = crossing[at(m) * at(parts + 1) + at(used)];
        while (middle + 1 < to && before[middle + 1] <= after[middle + 1])
          ++middle;
        const auto look = [&](int cut_at) {
          if (const auto here = std::max({before[cut_at], after[cut_at], end}); here < best)
            best = here, best_from = cut_at, best_parts = used;
        };
        // Further out nothing is better than these bounds.
        for (int s = middle; s > from && least_yet[s] < best; --s)
          look(s);
        for (int s = middle + 1; s < to && least_on[s] < best; ++s)
          look(s);
      }
      if (best_from < 0) continue;
      r.seconds[r.index(m, to)] = best;
      r.last_from[r.index(m, to)] = best_from;
      r.last_parts[r.index(m, to)] = best_parts;
      for (int s = to; s > from && r.least_on[r.index(m, s)] > best; --s)
        r.least_on[r.index(m, s)] = best;
    }
  }
  return r;
}

std::vector<double> level_recurrence::best_of_all_ranges() const {
  const auto n = costs_.states;
  std::vector<double> best(at(n) * at(n), infinity);
  for (int from = 0; from + 1 < n; ++from) {
    const auto r = solve(from, n - 1, costs_.parts);
    for (int to = from + 1; to < n; ++to)
      best[at(to) * at(n) + at(from)] = r.seconds[r.index(costs_.parts, to)];
  }
  return best;
}

// `rows` by number of stages, the longest last; one row that holds them all stands for every number.
std::vector<level_stage> level_recurrence::stages_of(const std::vector<const row*>& rows, int to) const {
  std::vector<level_stage> stages;
  auto which = rows.size();
  for (auto parts = rows.back()->parts;;) {
    const auto& r = *rows[which - 1];
    const auto from = r.last_from[r.index(parts, to)];
    if (from < 0) return {};
    stages.push_back({from, to, r.last_parts[r.index(parts, to)]});
    if (from == r.from) break;
    parts -= stages.back().parts;
    to = from;
    if (which > 1) --which;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

level_pipeline level_recurrence::best(int from, int to) const {
  const auto r = solve(from, to, costs_.parts);
  return {r.seconds[r.index(r.parts, to)], stages_of({&r}, to)};
}

std::vector<level_pipeline> level_recurrence::best_by_shape(int parts) const {
  const auto last = costs_.states - 1;
  std::vector<level_pipeline> found;
  const auto add = [&](double seconds, std::vector<level_stage> stages) {
    if (!stages.empty()) found.push_back({seconds, std::move(stages)});
  };
  std::vector<row> rows;
  const auto most = std::min({parts, last, most_stages_by_shape});
  rows.reserve(at(most + 1));
  rows.emplace_back(0, parts, costs_.states);
  rows.back().stages = 0;
  std::vector<const row*> chain;
  for (int stages = 1; stages <= most; ++stages) {
    rows.push_back(solve(0, last, parts, &rows.back()));
    chain.push_back(&rows.back());
    if (stages != 2) add(rows.back().seconds[rows.back().index(parts, last)], stages_of(chain, last));
  }
  for (int used = 1; used < parts && most >= 2; ++used) {
    auto best = costs_.limit;
    int where = -1;
    for (int s = 1; s < last; ++s) {
      const auto here = std::max({rows[1].seconds[rows[1].index(parts - used, s)],
                                  middle_[costs_.index(used, last) + at(s)], costs_.outer_at(used, last)});
      if (here < best) best = here, where = s;
    }
    if (where >= 0) add(best, {{0, where, parts - used}, {where, last, used}});
  }
  return found;
}

} // namespace penstock::planner
