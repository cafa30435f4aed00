// Reads bounds from messages and from the sums that updates wait for.
#include "actors/trace/causality.hpp"

#include "actors/trace/messages.hpp"
#include "actors/trace/plan_epochs.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace penstock::actors {

namespace {

class bounds_collector {
public:
  explicit bounds_collector(const std::vector<int>& clock_of_rank) : clock_of_rank_(clock_of_rank) {}

  void add(int first_rank, std::int64_t first_ns, int then_rank, std::int64_t then_ns) {
    const int early = clock_of_rank_[static_cast<std::size_t>(first_rank)];
    const int late = clock_of_rank_[static_cast<std::size_t>(then_rank)];
    if (early == late) return;
    const auto slack = then_ns - first_ns;
    const auto [at, is_new] = least_.try_emplace({early, late}, slack);
    if (!is_new) at->second = std::min(at->second, slack);
  }

  std::vector<clock_bound> take() const {
    std::vector<clock_bound> bounds;
    for (const auto& [clocks, slack] : least_)
      bounds.push_back({clocks.first, clocks.second, slack});
    return bounds;
  }

private:
  const std::vector<int>& clock_of_rank_;
  std::map<std::pair<int, int>, std::int64_t> least_;
};

/// One update of a stage, on all its ranks.
struct joined_update {
  std::map<int, std::int64_t> begins; // of the update, by rank
  std::map<int, std::int64_t> handed; // by rank: the last all-reduce's or, without one, the last backward's begin
};

/// By stretch, stage and the group's first minibatch.
using joined_updates = std::map<std::tuple<int, int, std::int64_t>, joined_update>;

/// Minibatches whose gradients one update of the stage sums; 0 where the header does not tell.
std::int64_t group_size(const trace_header& header, int stage) {
  try {
    return planner::minibatches_per_update(planner::schedule_of(header.plan), stage);
  } catch (const std::invalid_argument&) {
    return 0;
  }
}

joined_updates updates_of(const trace_header& header, const std::vector<trace_record>& records) {
  joined_updates updates;
  const auto is_joined = [&](const trace_record& r) {
    return r.stage >= 0 && header.plan.stages[static_cast<std::size_t>(r.stage)].replicas > 1;
  };
  for (const auto& r : records) {
    if (r.kind != span_kind::update || !is_joined(r)) continue;
    const auto [at, is_new] = updates[{r.stretch, r.stage, r.minibatch}].begins.try_emplace(r.rank, r.begin_ns);
    if (!is_new) at->second = std::min(at->second, r.begin_ns);
  }
  std::vector<std::int64_t> group_sizes;
  for (std::size_t s = 0; s < header.plan.stages.size(); ++s)
    group_sizes.push_back(group_size(header, static_cast<int>(s)));
  std::set<std::pair<int, int>> has_sums; // by rank and stage
  for (const auto& r : records)
    if (r.kind == span_kind::all_reduce) has_sums.emplace(r.rank, r.stage);
  for (const auto& r : records) {
    if (!is_joined(r)) continue;
    if (has_sums.contains({r.rank, r.stage}) ? r.kind != span_kind::all_reduce : !makes_weight_gradient(r)) continue;
    // The group that holds the minibatch is the last that begins at or before it, if that one's update is there.
    auto at = updates.upper_bound({r.stretch, r.stage, r.minibatch});
    if (at == updates.begin()) continue;
    const auto& [stretch, stage, first] = (--at)->first;
    if (stretch != r.stretch || stage != r.stage) continue;
    if (r.minibatch - first >= group_sizes[static_cast<std::size_t>(stage)]) continue;
    auto& handed = at->second.handed.try_emplace(r.rank, r.begin_ns).first->second;
    handed = std::max(handed, r.begin_ns);
  }
  return updates;
}

} // namespace

std::vector<clock_bound> clock_bounds(const trace_header& header, const std::vector<trace_record>& records,
                                      const std::vector<int>& clock_of_rank) {
  bounds_collector bounds(clock_of_rank);
  for_each_epoch(header, records, [&](std::size_t, const trace_header& h, const std::vector<trace_record>& of_epoch) {
    for (const auto& m : pair_messages(of_epoch))
      if (m.send != nullptr && m.receive != nullptr)
        bounds.add(m.send->rank, m.send->begin_ns, m.receive->rank, m.receive->begin_ns);
    for (const auto& [key, update] : updates_of(h, of_epoch))
      for (const auto& [giver, handed] : update.handed)
        for (const auto& [taker, begin] : update.begins)
          bounds.add(giver, handed, taker, begin);
  });
  return bounds.take();
}

} // namespace penstock::actors
