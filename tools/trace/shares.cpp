// Takes from each replica's time what came first in the order, then the next from what is left.
#include "tools/trace/shares.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace penstock::actors {

namespace {

constexpr std::array before_waits{span_kind::forward, span_kind::backward, span_kind::evaluate, span_kind::update};

/// The parts of a split backward count as one.
span_kind counted_as(span_kind kind) {
  return kind == span_kind::backward_input || kind == span_kind::backward_weight ? span_kind::backward : kind;
}
constexpr std::size_t all_reduce_place = before_waits.size() + wait_reasons;

/// Of one stage of a worker, in the order in which they count: before_waits, the waits by their reason, all-reduce.
using activities = std::array<std::vector<time_section>, all_reduce_place + 1>;

/// Past the end for what is no activity of a replica.
std::size_t place_of(const trace_record& r) {
  if (r.kind == span_kind::wait) return before_waits.size() + static_cast<std::size_t>(r.reason);
  if (r.kind == span_kind::all_reduce) return all_reduce_place;
  const auto at = std::find(before_waits.begin(), before_waits.end(), counted_as(r.kind));
  return at == before_waits.end() ? all_reduce_place + 1 : static_cast<std::size_t>(at - before_waits.begin());
}

double& share_at(stage_shares& shares, std::size_t place) {
  if (place == all_reduce_place) return shares.all_reduce;
  if (place >= before_waits.size()) return shares.waits[place - before_waits.size()];
  switch (before_waits[place]) {
  case span_kind::forward:
    return shares.forward;
  case span_kind::backward:
    return shares.backward;
  case span_kind::evaluate:
    return shares.evaluate;
  default:
    return shares.update;
  }
}

} // namespace

double stage_shares::known() const {
  double sum = busy() + evaluate + all_reduce;
  for (const double share : waits)
    sum += share;
  return sum;
}

double stage_shares::other() const {
  return std::max(0.0, 1 - known() - known_elsewhere);
}

std::vector<stage_shares> shares_of(const trace_header& header, const std::vector<trace_record>& records,
                                    const std::vector<time_section>& sections) {
  std::vector<stage_shares> stages(header.plan.stages.size());
  const auto length = static_cast<double>(length_of(sections));
  if (length <= 0) return stages;
  std::map<std::pair<int, int>, std::map<std::size_t, activities>> workers; // by position and replica; then by stage
  for (const auto& r : records)
    if (const auto place = place_of(r); r.stage >= 0 && place <= all_reduce_place && r.end_ns > r.begin_ns)
      workers[{position_of(header, r.stage), r.replica}][static_cast<std::size_t>(r.stage)][place].emplace_back(
          r.begin_ns, r.end_ns);
  for (auto& [who, hosted] : workers) {
    auto left = sections;
    for (std::size_t place = 0; place <= all_reduce_place; ++place)
      for (auto& [stage, did] : hosted) {
        if (did[place].empty()) continue;
        const auto spans = united(std::move(did[place]));
        share_at(stages[stage], place) +=
            static_cast<double>(length_of(common(spans, left))) / length / header.plan.stages[stage].replicas;
        left = without(left, spans);
      }
  }
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (std::size_t other = 0; other < stages.size() && header.plan.chunks > 1; ++other) {
      if (other == s || position_of(header, static_cast<int>(other)) != position_of(header, static_cast<int>(s)))
        continue;
      stages[s].busy_elsewhere += stages[other].busy();
      stages[s].known_elsewhere += stages[other].known();
    }
  return stages;
}

} // namespace penstock::actors
