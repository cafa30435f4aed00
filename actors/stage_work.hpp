// The part of a stage replica that its stream works on.
#pragma once

#include "actors/actor_context.hpp"
#include "actors/stage_job.hpp"
#include "actors/stage_tracer.hpp"

namespace penstock::actors {

/// Shared with posted work, which may outlive the actor when a run fails.
struct stage_work {
  context_ptr context;
  stage_unit* unit = nullptr;
  replica_unit* own = nullptr;
  stage_tracer trace;
  std::vector<tensor> evaluation_states; ///< the actor touches it only while nothing is posted

  /// On the stream's thread: runs the job and drops every handle it read through, before its completion is sent, so
  /// that the optimizer sees who really holds a weight version.
  void compute(backend& ops, stage_job& job);
};

} // namespace penstock::actors
