// A schedule: by what rules every worker's actions follow one another. A small, pure value; planner/sequence.hpp gives
// the actions themselves, one after another, to the stage actors and to the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::planner {

enum class action_kind : std::uint8_t { forward, backward, backward_input, backward_weight, update };
inline constexpr std::size_t action_kinds = 5;

/// A pass over a replica's own share of a stage, done by its whole backward or by the part that the neighbour waits
/// for.
constexpr bool ends_flight(action_kind kind) {
  return kind == action_kind::backward || kind == action_kind::backward_input;
}
/// The weights' gradient is there after it.
constexpr bool makes_weight_gradient(action_kind kind) {
  return kind == action_kind::backward || kind == action_kind::backward_weight;
}

/// One thing a worker does for one of its stages. Minibatches count from the last drain (tau), versions from the
/// stage's updates done at that drain (u_s).
struct action {
  action_kind kind = action_kind::forward;
  std::int64_t minibatch = 0; ///< of an update: its group, counted from 0
  std::int32_t microbatch = 0;
  std::int64_t version = 0; ///< read by forward and backward; written by an update (its group + 1)
  std::int32_t stage = 0;
  friend bool operator==(const action&, const action&) = default;
};

/// Update `group` of a stage.
constexpr action update_action(std::int32_t stage, std::int64_t group) {
  return {action_kind::update, group, 0, group + 1, stage};
}

/// What runs one sequence of actions: a replica of all the stages that a position hosts.
struct worker {
  int position = 0;
  int replica = 0;
  friend bool operator==(const worker&, const worker&) = default;
};

struct stage_schedule {
  int replicas = 1;
  std::int64_t credit = 1;            ///< K_s: forwards a replica may hold without their backward; of a frozen stage
                                      ///< those that it may have begun and not ended
  std::int64_t readable_versions = 1; ///< DESIGN section 2's table, for K_s and d_s as used
  /// backward_weights that may still be to come, after their backward_input, when anything but them begins: where the
  /// backward is split ceil(K_0 R_0 / R_s) - K_s, which for the table's K_s is DESIGN section 2's bound; else 0.
  std::int64_t delayed_weight_gradients = 0;
  std::int64_t update_lag = 0; ///< d_s: a forward reads a version so many updates older (DESIGN section 2 rule 6)
};

/// How one update is formed.
struct update_rule {
  bool per_minibatch_group = false; ///< pipedream family: group g of stage s is minibatches g R_s .. (g+1) R_s - 1
  bool scale_learning_rate = false; ///< pipedream family: factor c / R_0, c the minibatches present (DESIGN section 3)
};

struct schedule {
  std::string name;
  std::int64_t minibatches = 0; ///< from this drain to the next
  int microbatches = 1;
  int window = 0;
  int chunks = 1;              ///< v: stages that each worker position hosts
  int frozen_stages = 0;       ///< the first ones: forwards only, of weights that nothing changes (version 0)
  std::int64_t ahead = 0;      ///< micro-batches that the source admits beyond K_f R_f, f the first active stage
  bool synchronous = true;     ///< an update sees every gradient of its minibatch and nothing is stale
  bool stashes_weights = true; ///< false for pipedream-naive: backward's version differs from its forward's
  update_rule updates;
  std::vector<stage_schedule> stages;
  /// Stage 0 where none is frozen.
  const stage_schedule& first_active() const { return stages[static_cast<std::size_t>(frozen_stages)]; }
  bool is_frozen(int stage) const { return stage < frozen_stages; }
  /// Micro-batches that may be on their way: each gives its credit back with the first active stage's backward.
  std::int64_t source_credit() const { return first_active().credit * first_active().replicas + ahead; }
};

/// `--in-flight`: tight (V_s), double (2 V_s - 1), full (DESIGN section 2 rule 2), or K_0,K_1,...; standard is the
/// table's default. model-parallel keeps K = 1 under every named mode, and gpipe at least ceil(M / R_s).
struct in_flight_spec {
  enum class mode : std::uint8_t { standard, tight, doubled, full, given } kind = mode::standard;
  std::vector<std::int64_t> given;
};
/// Throws std::invalid_argument for anything else, and for a K below 1.
in_flight_spec parse_in_flight(std::string_view text);

struct schedule_request {
  std::string name = "pipedream";
  std::vector<int> replicas{1}; ///< R_s, one per stage, or per worker position where each hosts several chunks
  int microbatches = 0; ///< M; 0: the schedule's own default (R for data-parallel, max (K_s-1) R_s for 2bw, else 1)
  in_flight_spec in_flight;
  int window = 0;
  std::int64_t minibatches = 1;
  int chunks = 1;                         ///< v: stages of each worker position (interleaved)
  std::vector<std::int64_t> update_lag{}; ///< d_s, one per stage, or one for all; empty: none. Of pipedream only
  int frozen_stages = 0;                  ///< wholly frozen ones at the front; never all, none under interleaved
  std::int64_t ahead = 0; ///< see schedule; 0: R_f where stages are frozen, f being the first active one
};

/// Names of the schedules, in the order of DESIGN section 2's table.
std::vector<std::string> schedule_names();

/// Resolves M and the credits. Throws std::invalid_argument, one line that names the thing, what was found and what was
/// wanted; an unknown name suggests the nearest.
schedule resolve_schedule(const schedule_request& request);

/// Which replica of a stage with R replicas handles this micro-batch (DESIGN section 2 rule 3).
int replica_of(const schedule& s, int stage, std::int64_t minibatch, std::int32_t microbatch);
/// Minibatches after which every stage deals to its replicas as before; 0 for more than a million micro-batches.
std::int64_t dealing_period(const schedule& s);

/// Where a stage runs, and the stages of one place in ascending order: of n positions, position p hosts stages p, p +
/// n, p + 2n, ...
int position_of(const schedule& s, int stage);
int positions_of(const schedule& s);
std::vector<int> stages_at(const schedule& s, int position);
/// All workers, position by position and replica by replica.
std::vector<worker> workers_of(const schedule& s);

/// Minibatches whose gradients one update of the stage takes: R_s in the pipedream family, else 1.
std::int64_t minibatches_per_update(const schedule& s, int stage);
/// The update that a minibatch's gradients go into; 0 of a frozen stage, which has none.
std::int64_t update_of(const schedule& s, int stage, std::int64_t minibatch);
/// Updates from this drain to the next; the last may be of fewer minibatches. A frozen stage has none.
std::int64_t updates_of(const schedule& s, int stage);

/// "forward of minibatch 3 micro-batch 0", "update 2".
std::string describe(const action& a);
/// "stage 1 replica 0".
std::string describe_place(int stage, int replica);

/// V_s = ceil(sum of R_t for t >= s / R_s), for every stage (PipeDream, SOSP'19 section 3.3).
std::vector<std::int64_t> tight_credits(const std::vector<int>& replicas);
/// Rule 2's credits for full speed on balanced stages; lambda in units of one period.
std::vector<std::int64_t> full_credits(const std::vector<int>& replicas, double lambda = 0);

/// Samples of micro-batch m of a minibatch of `samples`: sizes differ by at most one, larger ones first; may be 0.
std::int64_t microbatch_samples(std::int64_t samples, int microbatches, int microbatch);
/// Samples of the smallest micro-batch of a minibatch that has any.
std::int64_t smallest_microbatch(std::int64_t samples, int microbatches);

} // namespace penstock::planner
