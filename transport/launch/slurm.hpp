// What srun tells its tasks.
#pragma once

#include "transport/launch/launch.hpp"

#include <optional>

namespace penstock::transport {

/// Nothing where this process is not a task of srun: a batch script and an interactive shell have SLURM_PROCID too, and
/// are no rank of anything. Rank 0's host is the first of the step's nodes and the port follows from the job's id,
/// unless MASTER_ADDR or MASTER_PORT say otherwise. Throws usage_error.
std::optional<launch> read_slurm(const environment& variables);

} // namespace penstock::transport
