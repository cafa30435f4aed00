// Going on without a lost process: the others start themselves anew, one fewer, from the last complete checkpoint.
#pragma once

#include "actors/ranks/job.hpp"
#include "actors/run_options.hpp"
#include "transport/launch/launch.hpp"

#include <vector>

namespace penstock::apps {

/// Stage replicas that remain when a rank's are gone. Stages that lose all of them are left out: the others share their
/// layers. Empty when nothing remains.
std::vector<int> without_rank(const actors::placement& where, int lost);

/// What starts anew: kept from the moment that a job is joined, since nothing of it may be asked for when things fail.
struct restart_recipe {
  std::vector<std::string> arguments; ///< of this process, without who it is
  std::vector<int> cores;             ///< that it had before it bound itself
  std::vector<transport::member> members;
  transport::launch where;
};
restart_recipe make_restart_recipe(const transport::launch& where, const std::vector<transport::member>& members);

/// Replaces this process by one of the smaller job, under the same process id; `replicas` is the hand-made pipeline that
/// is left (empty: the plan is sought anew). The others wait until rank 0's old self has gone. Returns only when the
/// system refuses, with the reason.
std::string start_anew(const restart_recipe& recipe, int lost, const std::vector<int>& replicas);

/// What start_anew left for this process: the replicas that remain; empty in a job that has lost nobody.
std::vector<int> remaining_replicas();
/// The ranks that were lost before, for the log: "rank 2".
std::string lost_before();

/// Makes a hand-made or planned pipeline one of those replicas: cuts and recomputation are kept where the number of
/// stages is, a list of credits never.
void shrink_pipeline(const std::vector<int>& replicas, actors::run_options& run);

} // namespace penstock::apps
