// Reads the files that the planner's commands are given: profiles, clusters and plans.
#pragma once

#include "apps/runner/command_line.hpp"
#include "planner/cluster/cluster.hpp"
#include "planner/plan/plan.hpp"
#include "planner/profile/profile.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace penstock::tools {

/// All throw penstock::error when a file cannot be read, and std::invalid_argument, one line that begins with the
/// file's name, when what is in it makes no sense.

/// A profile as `penstock profile` writes it, or PipeDream's graph.txt, which was made with minibatches of
/// `graph_samples`.
planner::profile read_profile(const std::string& file, std::int64_t graph_samples);

/// A cluster, with the profiles of its device types that have their own, whose names are relative to the cluster's
/// file.
planner::cluster read_cluster(const std::string& file);

/// A plan that the runtime or the simulator would take.
planner::plan read_plan(const std::string& file);

/// Runs something that checks what was read from a file, and puts the file's name before what it refuses.
template <typename Check>
auto naming(const std::string& file, Check check) {
  try {
    return check();
  } catch (const std::invalid_argument& fault) {
    throw std::invalid_argument(file + ": " + fault.what());
  }
}

inline constexpr std::int64_t most_graph_samples = 1'000'000'000; ///< of --graph-samples

/// What a model runs on, as options: a file, or devices of one type on one link.
struct cluster_texts {
  std::string file;
  int workers = 0;                        ///< 0: not given
  std::string bandwidth, latency, memory; ///< with units
};
void declare_cluster_options(apps::command_line& line, cluster_texts& texts);
bool is_given(const cluster_texts& texts);
/// Throws usage_error where a file and a flat cluster are both given or neither is.
planner::cluster read_cluster_options(const cluster_texts& texts);
/// "cluster.toml", or what the flat cluster is.
std::string describe(const cluster_texts& texts);

} // namespace penstock::tools
