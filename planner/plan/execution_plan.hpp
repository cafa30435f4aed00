// The executable plan: which layers run where, on how many replicas, under which schedule, with how much in flight. One
// immutable value; partition, schedule and placement are derived from it, and a plan's file is it written down.
#pragma once

#include "planner/schedule.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::planner {

struct planned_stage {
  std::string first_layer;
  std::string last_layer;           ///< inclusive
  int replicas = 1;                 ///< the same on all stages of a worker position
  std::vector<std::string> devices; ///< "cpu:0", one per replica; empty on all stages: in order, by whoever runs it
  std::vector<int> ranks;           ///< the process that hosts each replica; empty on all stages: one process, or open
  std::int64_t in_flight = 0;       ///< K_s; 0: the schedule's own
  bool recompute = false;           ///< drop activations after forward, compute them again in backward
  std::int64_t update_lag = 0;      ///< d_s: its forwards read versions so many updates older
  friend bool operator==(const planned_stage&, const planned_stage&) = default;
};

/// Settled (actors/policy/settle_plan.hpp) nothing of it is open: no zeros but the window, ranks wherever there are
/// several processes.
struct execution_plan {
  std::string schedule = "pipedream";
  int microbatches = 0; ///< M; 0: the schedule's own
  int window = 0;
  int chunks = 1;                       ///< v: stages that each worker position hosts, p, p + n, p + 2n, ...
  int threads = 0;                      ///< compute threads of a worker; 0: not said
  int processes = 0;                    ///< that the ranks are of; with another number they are dealt anew; 0: not said
  std::vector<std::string> layer_order; ///< where it is not the model's own, and where layers are frozen
  int frozen_until = 0;                 ///< layers before it, in layer_order, are frozen; never all; 0: none
  std::string first_active;             ///< that layer's name, "" where none is frozen: all that a file says of it
  std::int64_t ahead = 0; ///< micro-batches that the source admits beyond K_f R_f, f the first stage that is not wholly
                          ///< frozen, where stages before it are; 0: R_f
  std::vector<planned_stage> stages;
  friend bool operator==(const execution_plan&, const execution_plan&) = default;
};
using plan_ptr = std::shared_ptr<const execution_plan>;

/// BaPipe's schedule for streaming devices: forward and backward at once, twice the features of 1F1B (arXiv 2012.12544,
/// Table 1). The generator makes its order of work, 1F1B with doubled credits, not its concurrency.
inline constexpr std::string_view streaming_schedule = "fbp-as";

/// The stages as ranges of `layers`, all of the model's, in the model's order: where stages 1, 2, ... begin in the
/// plan's order, which is layer_order where it is given, else `layers`. Throws std::invalid_argument for a gap, an
/// overlap, a layer that there is not (with the nearest), an order that is none of the model's layers.
std::vector<int> cuts_of(const execution_plan& p, const std::vector<std::string>& layers);

/// Freezes the layers before number `frozen_until`, in the plan's order, which is layer_order where it is given, else
/// `layers`; 0 thaws. What no longer fits goes: stages that become wholly frozen, or were, lose credit, recomputation
/// and update lag, and where none is wholly frozen `ahead`. Throws std::invalid_argument for all layers, and as
/// cuts_of.
void freeze_until(execution_plan& p, int frozen_until, const std::vector<std::string>& layers);

/// Once the model's layers are known: finds the number for a name and the name for a number, and fills in layer_order
/// where layers are frozen. Throws std::invalid_argument, one line, for a name that is no layer (with the nearest), a
/// number that is another layer's, and all layers.
void settle_frozen(execution_plan& p, const std::vector<std::string>& layers);

/// Whether the plan tells which of its stages are wholly frozen: a file that names a layer inside a stage does not
/// without layer_order.
bool knows_frozen_stages(const execution_plan& p);
/// How many are, at the front. Throws std::invalid_argument where it is not known.
int frozen_stages_of(const execution_plan& p);
/// Whether `ahead` is what it is where nothing was said of it: the replicas of the first active stage.
bool runs_ahead_by_default(const execution_plan& p);

/// Replicas of each stage.
std::vector<int> replicas_of(const execution_plan& p);
/// Places for workers: position p hosts stages p, p + positions, ... Throws std::invalid_argument where `chunks` does
/// not divide the stages or those of a position have different replica counts.
std::size_t positions_of(const execution_plan& p);
/// Replicas of all positions together.
std::int64_t workers_of(const execution_plan& p);

/// What the plan asks of the schedule generator; stages that leave their credit to the schedule get its default.
/// Throws std::invalid_argument for an unknown schedule and credits that do not fit.
schedule_request request_of(const execution_plan& p, std::int64_t minibatches);

/// The plan's schedule, resolved, without lists. Throws as resolve_schedule.
schedule schedule_of(const execution_plan& p, std::int64_t minibatches = 1);

/// The plan with M, the credits and what is ahead as the schedule settles them. Throws as schedule_of.
void settle_schedule(execution_plan& p);

/// Throws std::invalid_argument, one line, for devices or ranks that are not one for each replica of every stage, for a
/// device twice, for stages of one worker position that have not the same, and for ranks beyond the processes.
void check_devices(const execution_plan& p);

/// "conv1 .. fc1", or "fc1" where there is one.
std::string layers_text(const planned_stage& stage);

/// "conv1..pool5 x15 | fc6..fc8 x1", ", frozen before fc6" where layers are.
std::string describe_stages(const execution_plan& p);

} // namespace penstock::planner
