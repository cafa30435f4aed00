// Sums over stages, replicas and hosts.
#include "apps/runner/plan_room.hpp"

#include "actors/policy/settle_plan.hpp"
#include "apps/runner/text_table.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace penstock::apps {

namespace {

constexpr double float_bytes = 4;

// What comes in from the stage before, or from the source; labels are few.
double input_bytes(const model& net, int first_layer, double samples) {
  double elements = 0;
  for (const auto value : net.crossing(first_layer))
    elements += static_cast<double>(element_count(net.value(value).spec.dims)); // of one sample
  for (const auto& input : net.inputs())
    if (const auto& v = net.value(input.value); first_layer == 0 && !v.consumers.empty())
      elements += static_cast<double>(element_count(v.spec.dims));
  return float_bytes * elements * samples;
}

// By host, for who it is that has too little.
std::map<std::string, double> bytes_by_host(const planner::execution_plan& p, const std::vector<rank_room>& rooms,
                                            const std::function<double(std::size_t)>& of_stage) {
  const auto where = actors::placement_of(p);
  std::map<std::string, double> sums;
  for (std::size_t s = 0; s < p.stages.size(); ++s)
    for (const int rank : where.rank_of[s])
      sums[rooms.at(static_cast<std::size_t>(rank)).identity] += of_stage(s);
  return sums;
}

std::string bytes_text(double bytes) {
  return byte_text(static_cast<std::int64_t>(bytes));
}

} // namespace

std::vector<stage_bytes> least_bytes(const planner::execution_plan& p, const model& net, std::int64_t batch,
                                     int optimizer_copies) {
  const auto shape = planner::schedule_of(p);
  const auto first = actors::first_layers_of(p, net);
  const auto samples = static_cast<double>(planner::smallest_microbatch(batch, shape.microbatches));
  std::vector<stage_bytes> all;
  for (std::size_t s = 0; s < first.size(); ++s) {
    const int end = s + 1 < first.size() ? first[s + 1] : static_cast<int>(net.layers().size());
    const int active = std::clamp(p.frozen_until, first[s], end);
    const double frozen = float_bytes * static_cast<double>(net.parameter_count(first[s], active));
    const double weights = float_bytes * static_cast<double>(net.parameter_count(active, end));
    const auto& stage = shape.stages[s];
    const auto held = active > first[s] ? 1 : stage.credit; // a frozen layer keeps no input
    all.push_back({frozen + weights * (1 + optimizer_copies),
                   frozen + weights * static_cast<double>(stage.readable_versions + 1 + optimizer_copies) +
                       static_cast<double>(held) * input_bytes(net, first[s], samples)});
  }
  return all;
}

void require_room(const planner::execution_plan& now, const planner::execution_plan& next,
                  const std::vector<planner::stage_prediction>& predicted, const model& net, std::int64_t batch,
                  int optimizer_copies, const std::vector<rank_room>& rooms) {
  const auto before = least_bytes(now, net, batch, optimizer_copies);
  const auto after = least_bytes(next, net, batch, optimizer_copies);
  const auto running = bytes_by_host(next, rooms, [&](std::size_t s) {
    return std::max(after[s].running, s < predicted.size() ? predicted[s].memory.total : 0);
  });
  const auto held = bytes_by_host(now, rooms, [&](std::size_t s) { return before[s].at_rest; });
  const auto taken = bytes_by_host(next, rooms, [&](std::size_t s) { return after[s].at_rest; });
  const auto of = [](const std::map<std::string, double>& sums, const std::string& host) {
    const auto found = sums.find(host);
    return found != sums.end() ? found->second : 0;
  };
  for (const auto& room : rooms) {
    const auto refuse = [&](double needed, const std::string& when) {
      throw usage_error("the plan needs at least " + bytes_text(needed) + " of memory on " + room.host + when +
                        ", which has " + bytes_text(room.bytes));
    };
    if (const auto needed = of(running, room.identity); needed > room.bytes) refuse(needed, "");
    const auto both = of(held, room.identity) + of(taken, room.identity);
    if (both > room.bytes) refuse(both, " beside the plan before it");
  }
}

} // namespace penstock::apps
