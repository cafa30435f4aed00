// What a run's stages were and took, gathered from the ranks that host them.
#pragma once

#include "actors/run/resolved_run.hpp"

namespace penstock::actors {

/// What is known before the run.
run_summary describe_plan(const resolved_run& plan, const model& net);

/// Fills in what is known after the run, on every rank. All ranks of a job call it.
void report_stages(const pipeline& p, const std::map<int, stage_measures>& here, const job* ranks,
                   std::vector<stage_report>& stages);

} // namespace penstock::actors
