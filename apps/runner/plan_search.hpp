// What `--plan auto` measures and which plans it finds worth a try.
#pragma once

#include "apps/runner/options.hpp"
#include "apps/runner/part_teller.hpp"
#include "kernels/model.hpp"
#include "planner/cluster/cluster.hpp"
#include "planner/plan/plan.hpp"
#include "planner/profile/profile.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace penstock::apps {

class app_job; // apps/runner/app_job.hpp

struct found_plans {
  planner::profile measured;
  std::vector<planner::cluster> machines; ///< one for each number of workers
  std::optional<planner::plan> plain;     ///< what runs without --plan: one worker, or the shape that is fixed
  std::optional<planner::plan> steady; ///< a straight pipeline that trusts no profile; where stages are free to choose
  std::vector<planner::plan> best;     ///< by predicted speed, the best of each shape first; the plain one is none
  std::vector<std::string> doubts;     ///< what no quiet machine would have measured
};

/// Measures the model with each number of workers that the machine has cores for (or that the cluster's file names),
/// and searches each. A profile that predicts more than its workers can do is measured a second time. In a job the
/// workers are its processes, the links are measured between them, and all ranks call it; only rank 0 gets plans. `say`
/// gets lines. Throws usage_error for what cannot be kept or does not fit, penstock::error when `teller` gave up.
found_plans search_plans(const app_options& options, const std::shared_ptr<const model>& net,
                         const std::string& model_description, const app_job* job, part_teller& teller,
                         const std::function<bool(const std::string&)>& say);

/// The text of --cluster's file. Throws penstock::error naming the option.
std::string read_cluster_text(const std::string& file);

} // namespace penstock::apps
