// One rank of a scripted run: its parts and what it hosts.
#pragma once

#include "actors/optimizer/optimizer_core.hpp"
#include "actors/run/coordinator_core.hpp"
#include "actors/run/metrics_core.hpp"
#include "actors/source/microbatch_loader.hpp"
#include "actors/source/source_core.hpp"
#include "actors/stage/worker_core.hpp"
#include "tests/actors/scripted/scripted_run.hpp"

#include <map>

namespace penstock::testing {

struct scripted_site {
  scripted_site(const scripted_case& what, int rank);

  int rank() const { return parts->rank; }
  bool hosts(int stage) const { return optimizers.contains(stage); }
  actors::stage_unit& unit(int stage) const { return parts->stages[static_cast<std::size_t>(stage)]; }
  actors::worker_core& worker(int stage, int replica) { return *workers.at({stage % parts->positions(), replica}); }

  /// Messages of that stretch may pass from now on.
  void open_gate(std::int64_t stretch);
  /// What its parts wait for.
  std::string waits() const;

  /// Of what each rank brings, in replica order, as the transport sums.
  actors::reduced_msg sum_of(int stage, const std::map<int, actors::reduce_bucket>& bucket_of);

  /// All that its stages have learnt.
  void copy_into(std::map<int, actors::stage_copy>& copies, memory_pool& pool);

  std::unique_ptr<actors::pipeline> parts;
  std::map<int, std::unique_ptr<backend>> ops; ///< by stage: of the first replica here
  std::optional<actors::coordinator_core> coordinator;
  std::optional<actors::source_core> source;
  std::optional<actors::metrics_core> metrics;
  std::map<std::pair<int, int>, std::unique_ptr<actors::worker_core>> workers; ///< by position and replica
  std::map<int, std::unique_ptr<actors::optimizer_core>> optimizers;
  std::map<int, std::shared_ptr<const actors::bucket_cuts>> buckets; ///< of stages on several ranks
  std::shared_ptr<actors::microbatch_loader> loader;                 ///< the one in use
  std::optional<std::int64_t> open;                                  ///< the gate: the stretch whose messages may pass
  std::vector<std::pair<std::int64_t, std::function<void()>>> held;

  // its trainer
  std::int64_t done = 0; ///< minibatches
  std::vector<std::int64_t> stretches;
  std::vector<double> losses;
  bool evaluates = false; ///< next
  bool is_over = false;
  std::string failure;

private:
  void open_stage(const scripted_case& what, actors::stage_unit& s);
  void open_workers(const scripted_case& what);
};

std::shared_ptr<actors::microbatch_loader> training_loader_of(const scripted_case& what);

} // namespace penstock::testing
