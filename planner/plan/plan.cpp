// Whether a plan can run.
#include "planner/plan/plan.hpp"

#include "planner/check_schedule.hpp"

#include <algorithm>
#include <stdexcept>

namespace penstock::planner {

namespace {

// An action takes 24 bytes; a plan whose shortest schedule has more is a mistyped number.
constexpr std::int64_t most_actions = 10'000'000;

[[noreturn]] void refuse(const std::string& message) {
  throw std::invalid_argument(message);
}

/// Enough to fill the pipeline and to go once round its replicas, as far as the actions stay few.
std::int64_t minibatches_to_check(const schedule& s) {
  const auto per_minibatch = static_cast<std::int64_t>(s.microbatches) * static_cast<std::int64_t>(s.stages.size());
  std::int64_t most = 0;
  for (const auto& stage : s.stages)
    most = std::max(most, std::max<std::int64_t>(1, stage.credit + stage.update_lag) * stage.replicas);
  const auto wanted = 2 + (2 * most + s.ahead) / s.microbatches;
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, most_actions / 50 / per_minibatch));
}

} // namespace

plan settled(plan p) {
  settle_schedule(p);
  return p;
}

void check_plan(const plan& p) {
  if (p.stages.empty()) refuse("the plan has no stages, wanted at least one");
  check_devices(p);
  if (p.schedule == streaming_schedule && !p.simulation_only)
    refuse("the schedule fbp-as needs devices that compute forward and backward at once: wanted simulation_only");
  if (!knows_frozen_stages(p)) return; // whoever knows the layers settles that, and then the schedule
  auto shape = resolve_schedule(request_of(p, 1));
  const auto actions = static_cast<std::int64_t>(shape.microbatches) * static_cast<std::int64_t>(p.stages.size());
  if (actions > most_actions)
    refuse(std::to_string(shape.microbatches) + " micro-batches on " + std::to_string(p.stages.size()) +
           " stages are " + std::to_string(actions) + " forwards a minibatch, wanted at most " +
           std::to_string(most_actions));
  shape.minibatches = minibatches_to_check(shape);
  if (const auto fault = check_schedule(shape)) refuse("the schedule cannot run: " + *fault);
}

} // namespace penstock::planner
