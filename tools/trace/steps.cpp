// Orders the minibatches of each stretch by their last loss.
#include "tools/trace/steps.hpp"

#include "actors/trace/plan_epochs.hpp"
#include "tools/trace/statistics.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace penstock::actors {

namespace {

/// Minibatches that fill the pipeline; 0 for a schedule that this version does not know.
std::int64_t filling_of(const trace_header& h) {
  try {
    const auto s = planner::schedule_of(h.plan);
    return (s.source_credit() + s.microbatches - 1) / s.microbatches;
  } catch (const std::invalid_argument&) {
    return 0;
  }
}

struct stretch_times {
  std::int64_t begin = 0, end = 0;                // of all its training spans
  std::map<std::int64_t, std::int64_t> losses_at; // by minibatch: the end of the last stage's last forward
};

std::map<int, stretch_times> stretchs_of(const trace_header& header, const std::vector<trace_record>& records) {
  const auto last_stage = static_cast<int>(header.plan.stages.size()) - 1;
  std::map<int, stretch_times> stretchs;
  for (const auto& r : records) {
    if (!is_training(r)) continue;
    const auto [at, is_new] = stretchs.try_emplace(r.stretch, stretch_times{r.begin_ns, r.end_ns, {}});
    auto& stretch = at->second;
    stretch.begin = std::min(stretch.begin, r.begin_ns);
    stretch.end = std::max(stretch.end, r.end_ns);
    if (r.stage != last_stage || r.kind != span_kind::forward) continue;
    auto& end = stretch.losses_at[r.minibatch];
    end = std::max(end, r.end_ns);
  }
  return stretchs;
}

/// Sums over the epochs of a run.
struct step_sums {
  std::vector<std::int64_t> intervals;
  double seconds = 0, all_seconds = 0;
  std::int64_t minibatches = 0;

  void add(const trace_header& header, const std::vector<trace_record>& records) {
    const auto filling = filling_of(header);
    for (const auto& [id, stretch] : stretchs_of(header, records)) {
      all_seconds += static_cast<double>(stretch.end - stretch.begin) * 1e-9;
      minibatches += static_cast<std::int64_t>(stretch.losses_at.size());
      std::int64_t place = 0, before = 0;
      for (const auto& [minibatch, losses_at] : stretch.losses_at) {
        const auto now = std::max(before, losses_at); // a minibatch is done when those before it are
        if (place > filling) {
          intervals.push_back(now - before);
          seconds += static_cast<double>(now - before) * 1e-9;
        }
        before = now;
        ++place;
      }
    }
  }
};

} // namespace

step_time step_time_of(const trace_header& header, const std::vector<trace_record>& records) {
  step_sums sums;
  for_each_epoch(header, records,
                 [&](std::size_t, const trace_header& h, const auto& of_epoch) { sums.add(h, of_epoch); });
  step_time result;
  result.steps = static_cast<std::int64_t>(sums.intervals.size());
  if (result.steps > 0)
    result.mean = sums.seconds / static_cast<double>(result.steps);
  else if (sums.minibatches > 0)
    result.mean = sums.all_seconds / static_cast<double>(sums.minibatches);
  result.minibatches = sums.minibatches;
  result.median = median(std::move(sums.intervals)) * 1e-9;
  return result;
}

} // namespace penstock::actors
