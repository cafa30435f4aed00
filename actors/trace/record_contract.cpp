// The limits of headers and records; whoever writes or reads a trace asks here.
#include "actors/trace/record_contract.hpp"

#include "kernels/check.hpp"

#include <utility>

namespace penstock::actors {

namespace te = track_event;

namespace {

constexpr std::int64_t most_minibatches = 1LL << 53; // sums of such numbers cannot overflow
constexpr std::int64_t most_update_lag = 1'000'000;  // as the schedules'

[[noreturn]] void refuse(const std::string& what) {
  throw error("trace header: " + what);
}

void check_ranks_of_plan(const planner::execution_plan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& stage = plan.stages[s];
    if (stage.ranks.size() != static_cast<std::size_t>(stage.replicas))
      refuse(std::to_string(stage.ranks.size()) + " ranks for " + std::to_string(stage.replicas) +
             " replicas of stage " + std::to_string(s));
    const auto first = static_cast<std::size_t>(position_of({.plan = plan}, static_cast<int>(s)));
    if (stage.ranks != plan.stages[first].ranks)
      refuse("stage " + std::to_string(s) + " on other ranks than stage " + std::to_string(first) +
             " of the same workers");
    for (const int rank : stage.ranks)
      if (rank < 0 || rank >= most_ranks) refuse("stage " + std::to_string(s) + " on rank " + std::to_string(rank));
  }
}

void check_ranks(const trace_header& h) {
  if (h.rank < -1 || h.rank > most_ranks) refuse("rank " + std::to_string(h.rank));
  if (h.hosts.size() > most_ranks) refuse(std::to_string(h.hosts.size()) + " hosts, at most 32767 are read");
  constexpr std::int64_t most_ns = std::int64_t{1} << 58; // nine years; far from overflow when added to a time
  if (h.clock_offset_ns < -most_ns || h.clock_offset_ns > most_ns)
    refuse("a clock offset of " + std::to_string(h.clock_offset_ns) + " ns");
  if (h.clock_conflict_ns < 0) refuse("a clock conflict of " + std::to_string(h.clock_conflict_ns) + " ns");
  for (const auto& change : h.changes)
    if (names_ranks({.plan = change.plan}) != names_ranks(h))
      refuse("ranks in one plan of the run and none in another");
  if (!names_ranks(h)) return;
  check_ranks_of_plan(h.plan);
  for (const auto& change : h.changes)
    check_ranks_of_plan(change.plan);
  const int ranks = rank_count(h);
  if (!h.hosts.empty() && h.hosts.size() < static_cast<std::size_t>(ranks))
    refuse(std::to_string(h.hosts.size()) + " hosts for " + std::to_string(ranks) + " ranks");
  if (h.rank >= ranks) refuse("rank " + std::to_string(h.rank) + " of " + std::to_string(ranks));
}

/// Returns the replicas of all its stages.
std::int64_t check_plan(const planner::execution_plan& plan) {
  const auto stages = plan.stages.size();
  if (stages == 0 || stages > most_stages) refuse(std::to_string(stages) + " stages, wanted 1 to 10000");
  try {
    positions_of(plan);
  } catch (const std::invalid_argument& fault) {
    refuse(fault.what());
  }
  std::int64_t replicas = 0;
  for (const auto& stage : plan.stages) {
    if (stage.replicas < 1 || stage.replicas > most_replicas)
      refuse("a stage of " + std::to_string(stage.replicas) + " replicas, wanted 1 to 32767");
    replicas += stage.replicas;
  }
  if (replicas > most_replicas)
    refuse(std::to_string(replicas) + " replicas of " + std::to_string(stages) + " stages, at most 32767 are read");
  for (const auto& stage : plan.stages)
    if (const auto k = stage.in_flight; k < 1 || k > most_minibatches)
      refuse("a credit of " + std::to_string(k) + (k < 1 ? ", wanted 1 or more" : ", at most 2^53 are read"));
  for (const auto& stage : plan.stages)
    if (stage.update_lag < 0 || stage.update_lag > most_update_lag)
      refuse("an update lag of " + std::to_string(stage.update_lag) + ", wanted 0 to " +
             std::to_string(most_update_lag));
  if (plan.microbatches < 1) refuse(std::to_string(plan.microbatches) + " micro-batches, wanted 1 or more");
  if (plan.window < 0) refuse("a window of " + std::to_string(plan.window) + ", wanted 0 or more");
  return replicas;
}

/// Epochs follow one another; one may be over before it has trained anything.
void check_changes(const trace_header& h) {
  if (h.changes.size() > most_changes)
    refuse(std::to_string(h.changes.size()) + " changes of plan, at most " + std::to_string(most_changes) +
           " are read");
  constexpr std::int64_t most_stretch = std::numeric_limits<std::int32_t>::max();
  auto replicas = check_plan(h.plan);
  trace_plan_epoch before{.first_minibatch = std::max<std::int64_t>(0, h.first_minibatch)};
  for (const auto& change : h.changes) {
    const auto refuse_number = [&](const std::string& what, std::int64_t found, std::int64_t least) {
      refuse("a plan whose first " + what + " is " + std::to_string(found) + ", wanted " + std::to_string(least) +
             " or more");
    };
    if (change.first_stretch < before.first_stretch || change.first_stretch > most_stretch)
      refuse_number("stretch", change.first_stretch, before.first_stretch);
    if (change.first_minibatch < before.first_minibatch || change.first_minibatch > most_minibatches)
      refuse_number("minibatch", change.first_minibatch, before.first_minibatch);
    if (change.first_evaluation > before.first_evaluation || change.first_evaluation < -most_stretch)
      refuse("a plan whose first evaluation is " + std::to_string(change.first_evaluation) + ", wanted " +
             std::to_string(before.first_evaluation) + " or less");
    replicas += check_plan(change.plan);
    if (replicas > most_replicas_of_run)
      refuse("plans of more than " + std::to_string(most_replicas_of_run) + " replicas together");
    before.first_stretch = change.first_stretch;
    before.first_minibatch = change.first_minibatch;
    before.first_evaluation = change.first_evaluation;
  }
  if (h.complete && h.minibatches < before.first_minibatch && !h.changes.empty())
    refuse(std::to_string(h.minibatches) + " minibatches and a plan that begins at minibatch " +
           std::to_string(before.first_minibatch));
}

} // namespace

void check_header(const trace_header& h) {
  if (h.first_minibatch < -1 || h.first_minibatch > most_minibatches)
    refuse("a first minibatch of " + std::to_string(h.first_minibatch));
  check_changes(h);
  if (h.complete && h.minibatches < 0) refuse("complete without the count of its minibatches");
  if (h.minibatches < -1 || h.minibatches > most_minibatches) refuse(std::to_string(h.minibatches) + " minibatches");
  if (h.dropped < 0) refuse(std::to_string(h.dropped) + " dropped records");
  check_ranks(h);
}

std::string misfit_of_plan(const trace_record& r, const planner::execution_plan& plan) {
  const auto stages = static_cast<int>(plan.stages.size());
  if (r.stage < -2 || r.stage >= stages) return "a span of stage " + std::to_string(r.stage);
  if (r.peer < -2 || r.peer >= stages) return "a message of stage " + std::to_string(r.peer);
  if (r.replica < 0 || (r.stage >= 0 && r.replica >= plan.stages[static_cast<std::size_t>(r.stage)].replicas))
    return "a span of stage " + std::to_string(r.stage) + " replica " + std::to_string(r.replica);
  return {};
}

std::string misfit(const trace_record& r, const trace_header& header) {
  std::string what;
  for_each_number(r, [&](te::field field, std::int64_t number, const number_range& range) {
    if (!range.holds(number))
      what = "annotation '" + std::string(te::field_names[field]) + "' holds " + std::to_string(number);
  });
  if (!what.empty()) return what;
  if (static_cast<std::size_t>(r.kind) >= span_kinds) return "a span of no known kind";
  if (static_cast<std::size_t>(r.reason) >= wait_reasons) return "a wait for an unknown reason";
  if (r.begin_ns < 0 || r.end_ns < 0) return "a time of " + std::to_string(std::min(r.begin_ns, r.end_ns)) + " ns";
  if (auto out_of_plan = misfit_of_plan(r, header.plan); !out_of_plan.empty()) {
    const auto fits = [&](const trace_plan_epoch& change) { return misfit_of_plan(r, change.plan).empty(); };
    if (std::none_of(header.changes.begin(), header.changes.end(), fits)) return out_of_plan;
  }
  if (r.rank < -1 || (r.rank >= 0 && r.rank >= rank_count(header))) return "a span of rank " + std::to_string(r.rank);
  return {};
}

} // namespace penstock::actors
