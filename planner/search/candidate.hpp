// A partition with its replicas and devices, as the searches find it, and what it costs under their cost model.
#pragma once

#include "planner/cluster/cluster.hpp"
#include "planner/schedule.hpp"
#include "planner/search/layer_graph.hpp"

#include <string>
#include <vector>

namespace penstock::planner {

struct stage_choice {
  int from_state = 0;
  int to_state = 0;
  std::vector<int> devices; ///< one per replica, all of one type
  bool recompute = false;
  std::int64_t in_flight = 1;  ///< K_s that memory was charged for
  std::int64_t update_lag = 0; ///< d_s
};

struct candidate {
  std::string origin; ///< "flat", "hierarchical", "straight", "data-parallel", "2bw", "given"
  std::vector<stage_choice> stages;
  int chunks = 1;     ///< stages that the same devices host
  double seconds = 0; ///< per micro-batch in steady state, or per minibatch with flush: the search's objective
};

std::vector<int> replicas_of(const candidate& c);

/// How micro-batches, updates and flushes are charged.
enum class update_charge : std::uint8_t {
  every_group,     ///< pipedream family: R_s minibatches, one on each replica, then an update
  every_minibatch, ///< 2bw: M micro-batches an update, never flushed
  flush            ///< M micro-batches, then the pipeline runs empty
};

/// Which way the cost model errs where only a simulation can tell.
enum class estimate : std::uint8_t {
  cautious, ///< both directions of a link take turns; all of an update's all-reduce beyond its backward is waited for;
            ///< memory holds the largest workspace and what is in transit beside all that is kept
  hopeful   ///< full duplex is used fully; a flush hides every all-reduce; memory holds what is kept, one gradient set
            ///< and no second buffer
};

/// What memory asks of a search beyond the loads.
struct memory_rule {
  int optimizer_copies = 1;              ///< of the weights: 0 sgd, 1 with momentum, 2 adam
  int gradient_sets = 1;                 ///< 2 for 2bw
  bool versions_follow_in_flight = true; ///< pipedream: K_s versions; else `versions`
  int versions = 1;
};

struct search_request {
  update_charge charge = update_charge::every_group;
  int microbatches = 1;
  double samples = 1; ///< of a micro-batch
  memory_rule memory;
  bool whole_minibatch_in_flight = false; ///< gpipe: K_s = ceil(M / R_s); else V_s
  bool allow_recompute = false;           ///< where memory asks for it
  std::int64_t update_lag = 0;            ///< d that replicated stages take where memory allows it
  /// Where minibatches hand columns on, the blocks that they are in: replica counts divide it, and a replica holds its
  /// share. 0: any counts, and memory of a stage as if the others had its own.
  std::int64_t column_blocks = 0;
  int stages = 0; ///< exactly so many; 0: any
  bool use_all_devices = true;
  estimate errs = estimate::cautious;
  std::size_t top = 20;
};

} // namespace penstock::planner
