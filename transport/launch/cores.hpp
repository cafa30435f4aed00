// Which processor cores a rank computes on, so that ranks of one host stay out of each other's way.
#pragma once

#include "transport/launch/launch.hpp"

#include <vector>

namespace penstock::transport {

/// A rank's share of the processors this process may use, as the system numbers them, in ascending order: whole cores,
/// close together in the machine. Shares of different local ranks are disjoint and leave none out; with more ranks than
/// cores several ranks have the same core. Throws penstock::error when the machine cannot be examined.
std::vector<int> cores_of_rank(int local_rank, int local_size);

/// The same for a rank of a job, except where a launcher that binds ranks by itself (Slurm, Open MPI, PMI) has narrowed
/// what this process may use to less than the host has: then that is its share. The other launchers bind nobody, so
/// what the process may use is what all ranks of the host may use together.
std::vector<int> cores_of_rank(const launch& where);

/// Binds the calling thread and the threads it makes from now on. Call it in main, before any library makes threads.
/// Throws penstock::error.
void bind_to(const std::vector<int>& cores);

} // namespace penstock::transport
