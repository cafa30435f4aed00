// Takes a run epoch by epoch, each as its own plan has it, and looks at what lies between them.
#include "tools/trace/history.hpp"

#include "actors/trace/plan_epochs.hpp"
#include "tools/trace/epoch_check.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace penstock::actors {

namespace {

class run_check {
public:
  explicit run_check(const trace_header& header) : header_(header) {}

  std::optional<std::string> run(const std::vector<trace_record>& records) {
    if (header_.changes.empty()) {
      check_epoch(checked(0, header_), header_, records, found_);
      return found_.first();
    }
    for (const auto& epoch : split_by_epoch(header_, records)) {
      check_strays(epoch);
      check_after_the_drain(epoch);
      check_epoch(checked(epoch.number, epoch.header), epoch.header, epoch.records, found_);
      if (auto first = found_.first()) return first; // what comes later may only follow from it
    }
    return std::nullopt;
  }

private:
  checked_epoch checked(std::size_t number, const trace_header& header) const {
    const auto minibatches = std::to_string(header.minibatches);
    return {.is_first = number == 0,
            .is_named = !header_.changes.empty(),
            .number = number,
            .end = number < header_.changes.size()
                       ? "plan epoch " + std::to_string(number + 1) + " begins with minibatch " + minibatches
                       : "the run has " + minibatches + " minibatches"};
  }

  void check_strays(const epoch_part& epoch) {
    for (const auto& r : epoch.strays) {
      const auto& stages = epoch.header.plan.stages;
      const auto place = [](int stage) { return "stage " + std::to_string(stage); };
      const auto count = static_cast<int>(stages.size());
      found_.place = place_of(checked(epoch.number, epoch.header), r.stretch);
      auto line = std::string(name_of(r.kind)) + " of minibatch " + std::to_string(r.minibatch);
      if (r.stage >= count)
        line = place(r.stage) + ": " + line;
      else if (r.peer >= count)
        line = place(r.stage) + ": " + line + " with " + place(r.peer);
      else
        line = place(r.stage) + " replica " + std::to_string(r.replica) + ": " + line;
      found_.add(r.begin_ns, line + ", the plan has " + std::to_string(count) + (count == 1 ? " stage" : " stages") +
                                 (r.stage >= 0 && r.stage < count && r.peer < count
                                      ? " and " + std::to_string(stages[static_cast<std::size_t>(r.stage)].replicas) +
                                            " of this one's replicas"
                                      : ""));
    }
  }

  /// A plan takes over when a rank has ended all that it does under the one before. Ranks are not compared with one
  /// another: between their clocks lies more than between a drain and the next stretch.
  void check_after_the_drain(const epoch_part& epoch) {
    auto until = busy_until_;
    for (const auto& r : epoch.records) {
      if (!is_training(r)) continue;
      const int rank = rank_of(epoch.header, r.stage, r.replica);
      if (const auto at = busy_until_.find(rank); at != busy_until_.end() && r.begin_ns < at->second) {
        found_.place = place_of(checked(epoch.number, epoch.header), r.stretch);
        found_.add(r.begin_ns, actor_name(epoch.header, r.stage, r.replica) + ": " + std::string(name_of(r.kind)) +
                                   " of minibatch " + std::to_string(r.minibatch) +
                                   " before the plan ahead of it was done");
      }
      auto& end = until.try_emplace(rank, r.end_ns).first->second;
      end = std::max(end, r.end_ns);
    }
    busy_until_ = std::move(until);
  }

  const trace_header& header_;
  std::map<int, std::int64_t> busy_until_; // of each rank: the end of its training under the plans so far
  violations found_;
};

} // namespace

std::optional<std::string> check_history(const trace_header& header, const std::vector<trace_record>& records) {
  return run_check(header).run(records);
}

history_verdict check_history(const trace_file& file) {
  using outcome = history_verdict::outcome;
  if (!file.complete()) return {outcome::incomplete, "the trace is incomplete: " + file.missing};
  if (const auto violation = check_history(file.header, file.records)) return {outcome::violated, *violation};
  std::int64_t actions = 0;
  for (const auto& r : file.records)
    actions += is_training(r) ? 1 : 0;
  const auto first = std::max<std::int64_t>(0, file.header.first_minibatch);
  const auto plans = epoch_count(file.header);
  return {outcome::holds, std::to_string(file.header.minibatches - first) + " minibatches, " + std::to_string(actions) +
                              " forwards, backwards and updates " +
                              (plans == 1 ? "on " + std::to_string(file.header.plan.stages.size()) + " stages"
                                          : "under " + std::to_string(plans) + " plans one after another") +
                              ": the history holds"};
}

} // namespace penstock::actors
