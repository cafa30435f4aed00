// Walks the records of each worker beside its sequence.
#include "actors/trace/turn_check.hpp"

#include "planner/sequence.hpp"

#include <algorithm>
#include <string>

namespace penstock::actors {

namespace {

std::string what_of(const trace_header& header, const trace_record& r) {
  return worker_name(header, r.stage, r.replica) + ": " + std::string(name_of(r.kind)) + " of " +
         micro_name(header, r.minibatch, r.microbatch) + " of stage " + std::to_string(r.stage);
}

void follow(const trace_header& header, planner::sequence listed, const std::vector<const trace_record*>& done,
            std::int64_t first, violations& found) {
  for (const trace_record* r : done) {
    auto next = listed.next();
    while (next && next->kind == planner::action_kind::update)
      next = listed.next();
    if (!next) return;
    const bool is_forward = next->kind == planner::action_kind::forward;
    if (is_forward == (r->kind == span_kind::forward) && next->stage == r->stage &&
        next->minibatch == r->minibatch - first && next->microbatch == r->microbatch)
      continue;
    found.add(r->begin_ns,
              what_of(header, *r) + " where the schedule has the " + (is_forward ? "forward" : "backward") + " of " +
                  micro_name(header, first + next->minibatch, next->microbatch) + " of stage " +
                  std::to_string(next->stage),
              violations::weight::consequence);
    return;
  }
}

} // namespace

void check_turns(const trace_header& header, const planner::schedule& schedule,
                 const std::vector<const trace_record*>& records, std::int64_t first, violations& found) {
  if (schedule.chunks == 1) return;
  for (const auto& w : workers_of(schedule)) {
    std::vector<const trace_record*> done;
    std::int64_t busy_until = 0;
    for (const trace_record* r : records) {
      const bool is_its = position_of(header, r->stage) == w.position && r->replica == w.replica;
      if (!is_its || r->kind == span_kind::update) continue;
      if (r->begin_ns < busy_until)
        found.add(r->begin_ns, what_of(header, *r) + " while the worker was busy with another stage");
      busy_until = std::max(busy_until, r->end_ns);
      done.push_back(r);
    }
    if (schedule.window == 0) follow(header, planner::sequence(schedule, w), done, first, found);
  }
}

} // namespace penstock::actors
