// Where a worker stands in its plan epoch, and which stages it hosts.
#pragma once

#include "kernels/segment.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace penstock::actors {

/// One of a worker's stages, as its core needs to know it.
struct stage_place {
  std::int64_t plan_epoch = 0;
  int stage = 0;
  int replica = 0;
  int replicas = 1;
  bool is_first = false;
  bool is_first_active = false; ///< what it sends left ends here, and its backward returns the source's credit
  bool is_last = false;
  bool reads_inputs = false;  ///< the source feeds it beside the stage before
  bool tells_metrics = false; ///< it has losses, or the model's results
  bool recomputes = false;
  bool sends_buckets = false; ///< its gradients leave while the last of them are made
  bool stops_on_nonfinite = true;
  std::uint64_t seed = 0;
  std::int64_t source_credit = 1; ///< no more is ever admitted: the bound of every inbox
  std::shared_ptr<const segment> layers;
};
/// "stage 1", "stage 1 replica 0".
std::string name_of(const stage_place& place);

/// Whoever runs one sequence of actions: a replica of one stage, or of every stage of a position.
struct worker_place {
  std::int64_t plan_epoch = 0;
  int position = 0;
  int replica = 0;
  std::vector<stage_place> stages; ///< ascending
};
/// As its only stage, or "worker 1 replica 0 (stages 1, 4)".
std::string name_of(const worker_place& place);

} // namespace penstock::actors
