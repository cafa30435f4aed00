// Ends a job for what broke on one rank.
#pragma once

#include "actors/ranks/job.hpp"

#include <optional>
#include <string>

namespace penstock::actors {

/// Tells the job's other ranks what broke here. The first cause, where that is another rank's.
std::optional<transport::job_failure> tell_others(const job& ranks, const std::string& what);

} // namespace penstock::actors
