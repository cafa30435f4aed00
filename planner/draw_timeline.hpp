// A picture of a run in plain text: one row a stage replica, columns of time. For simulated and for real runs.
#pragma once

#include "planner/schedule.hpp"

#include <string>
#include <vector>

namespace penstock::planner {

struct simulation;

/// One thing that a stage replica did, in any unit of time.
struct timeline_span {
  int stage = 0; ///< or the worker position, where one hosts several stages: its row
  int replica = 0;
  action_kind kind = action_kind::forward;
  std::int64_t minibatch = 0; ///< of an update: its group
  double begin = 0;
  double end = 0;
};

/// With a row for each worker.
std::vector<timeline_span> timeline_of(const simulation& run);
/// What its rows are: "stage", or "worker" where one hosts several.
std::string rows_of(const simulation& run);

/// Draws [from, to] in `width` columns (at least 10) of ASCII, rows in order of stage and replica. A cell belongs to
/// whatever fills most of it: a forward reads `7>>`, a backward `<<7` (the minibatch's last digits, as many as fit;
/// only the arrows where there is no room), an update `u`, nothing `.`. Rows end with '\n'; a row is
/// "stage 0   |7>><<7.|", "stage 0.1 |...|" where a stage has replicas; `row` is the word before the number. Ends with
/// a line for the scale: the times of the first and last column and the legend. Spans outside are cut, ones that are
/// not finite or end before they begin are left out. Throws std::invalid_argument for another width or for from >= to.
std::string draw_timeline(const std::vector<timeline_span>& spans, double from, double to, int width,
                          const std::string& row = "stage");
/// All of it, from the earliest begin to the latest end; "" if there is none.
std::string draw_timeline(const std::vector<timeline_span>& spans, int width, const std::string& row = "stage");

} // namespace penstock::planner
