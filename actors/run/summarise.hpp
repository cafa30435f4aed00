// What a run's stages were and took, gathered from the ranks that host them.
#pragma once

#include "actors/run/executor.hpp"

namespace penstock::actors {

/// Fills in what is known after the run, on every rank. All ranks of a job call it.
void report_stages(const pipeline& p, const std::map<int, stage_measures>& here, const job* ranks,
                   std::vector<stage_report>& stages);

} // namespace penstock::actors
