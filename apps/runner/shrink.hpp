// Going on without lost processes: the others start themselves anew, fewer, from the last complete checkpoint.
#pragma once

#include "actors/policy/settle_plan.hpp"
#include "transport/control/control_plane.hpp"
#include "transport/launch/launch.hpp"

#include <string>
#include <vector>

namespace penstock::apps {

/// Ranks that were lost together, ascending, by the numbers of the job that lost them; the oldest loss first.
using losses = std::vector<std::vector<int>>;

/// What start_anew tells this process; empty in a job that has lost nobody. Throws usage_error when the variable holds
/// something else.
losses lost_before();
/// For the log: "rank 2, then ranks 1, 3".
std::string text_of(const losses& lost);
/// The processes of the job before any were lost, when there are now so many.
int processes_before(const losses& lost, int processes);

/// What is left of a pipeline, in the numbers of the ranks that are left. An idle rank takes a lost one's place. Else
/// its replicas are gone, and a stage that has lost all of them leaves its layers to the others. No stages when nothing
/// is left.
actors::placement without_ranks(const actors::placement& where, const std::vector<int>& lost);
/// The same after one loss after the other.
actors::placement without_losses(actors::placement where, const losses& lost);

/// Makes a hand-made or planned pipeline that one, `left` being of its worker positions: cuts and recomputation are
/// kept where the number of stages is, a list of credits never. Positions that host several chunks keep as many
/// replicas as the one that has the fewest.
void shrink_pipeline(actors::placement left, actors::pipeline_request& pipeline);

/// What starts anew: kept from before a job is joined, since nothing of it may be asked for when things fail.
struct restart_recipe {
  std::vector<std::string> arguments; ///< of this process, without who it is
  std::vector<int> cores;             ///< that it had before it bound itself
  transport::launch where;
  losses lost;            ///< before
  std::vector<int> hosts; ///< by rank, equal for ranks of one host; empty when not known
};
restart_recipe make_restart_recipe(const transport::launch& where);
/// Numbers for restart_recipe::hosts.
std::vector<int> hosts_of(const std::vector<transport::member>& members);

/// Replaces this process, under the same process id, by one of the job without those ranks (ascending; neither this one
/// nor rank 0). Any thread. Only standard input, output, error and the secret's descriptor stay open, and signals that
/// come meanwhile reach the new program. Returns only when a signal had come before, with "", or when the system
/// refuses, with the reason.
std::string start_anew(const restart_recipe& recipe, const std::vector<int>& lost);

} // namespace penstock::apps
