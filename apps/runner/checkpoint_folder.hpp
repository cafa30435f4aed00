// What a run is to do with its checkpoint folder, settled before anything that takes long.
#pragma once

#include "actors/checkpoint/checkpoint_lock.hpp"
#include "actors/run_control.hpp"
#include "apps/runner/app_job.hpp"

namespace penstock::apps {

struct settled_folder {
  app_options options;                           ///< run.resume says whether there is something to go on from
  std::unique_ptr<actors::checkpoint_lock> lock; ///< of who writes into the folder: rank 0, or the one process
};

/// Locks the folder and looks what it holds, in a job on rank 0 for all: the others need not see it. Goes on from a
/// checkpoint when `--resume auto` or a restart finds one; the weights file is then left alone. Throws usage_error, on
/// all ranks together, for another run's checkpoint; penstock::error for a folder that another run writes into or that
/// cannot be written.
settled_folder settle_checkpoint_folder(app_options options, int restarts, const app_job* job,
                                        const actors::run_control& control);

} // namespace penstock::apps
