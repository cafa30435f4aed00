// The event loop of a virtual machine: playback's rules under a clock.
#pragma once

#include "planner/machine.hpp"
#include "planner/machine_links.hpp"
#include "planner/machine_memory.hpp"
#include "planner/playback.hpp"

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

namespace penstock::planner {

/// One run; the rules are run_machine's. Schedule, machine and options must be checked, and must outlive it.
class machine_player {
public:
  machine_player(const schedule& s, const machine& m, const machine_options& options);
  machine_run run();

private:
  enum class happening : std::uint8_t {
    action_ends,
    message_arrives,
    both_are_free, // after a blocking send
    bucket_is_ready,
    bucket_is_sent,
    all_reduce_ends,
    update_ends
  };
  struct event {
    double time = 0;
    std::int64_t order = 0; // of making, so that equal times keep it
    action about;           // of an all-reduce: any action that belongs to its update
    std::int32_t lane = 0;  // that did `about`; of an all-reduce's buckets: the flow
    happening what = happening::action_ends;
    bool operator>(const event& other) const { return time != other.time ? time > other.time : order > other.order; }
  };

  /// What one replica has done for one update.
  struct share {
    std::int64_t backwards_left = 0; // once it has begun
    bool is_begun = false;
  };
  struct lane_state {
    int device = 0;
    bool is_busy = false;
    bool is_queued = false;       // at its device
    std::optional<action> unsent; // a blocking send that waits or runs
    bool is_sending = false;
    bool is_paired = false; // its receiver sends to it at the same time
  };
  /// One replica of one stage: what its lane, which may host several stages, does for this one.
  struct replica_state {
    std::int64_t in_flight = 0;
    bool is_updating = false;    // or will, when its device is free
    std::vector<action> reached; // updates that it has come to and that are not done
    std::vector<share> shares;   // by update
    replica_memory memory;
  };
  struct waiting_update {
    int lane = 0;
    int stage = 0;
  };
  struct device_state { // what waits is little and in order
    bool is_busy = false;
    double factor = 1;                   // of a straggler
    std::vector<waiting_update> updates; // whose next one waits
    std::vector<int> lanes;              // that found the device busy
  };
  struct update_state {
    int joined = 0; // replicas whose last backward has begun, or who have none
    int reached = 0;
    std::vector<int> buckets; // of the all-reduce, sent by each of its flows
    std::size_t sent = 0;     // flows that have sent all of theirs
    bool is_reduced = false;
    double first_ready = 0, last_ready = 0; // when its buckets become ready
    double begin = 0, end = 0;              // of the all-reduce, as far as it is known
  };
  struct stage_state {
    int first_lane = 0;
    int replicas = 1;
    bool is_last = false;
    bool updates_once = false; // one update on the first replica's device serves all
    bool reduces = false;
    machine_links::group_route route;
    std::vector<std::vector<action>> reducing; // by flow: updates that have buckets to send, the oldest first
    std::vector<replica_state> own;
    std::vector<update_state> updates;
    std::vector<version_ledger> versions; // one, or one for each replica
    double reduced_seconds = 0;
  };

  void add_stage(int stage);
  std::int64_t backwards_for(int lane, const action& a) const;
  void hold_what_stays(int stage, int lane);

  void schedule_event(double time, happening what, int lane, const action& about);
  void handle(const event& e);
  void start_woken();
  void try_lane(int lane);
  void free_device(int device, int finished_lane);

  void occupy(int lane, const action& a);
  void finish(int lane, const action& a);
  bool has_receiver(const action& a) const;
  double backward_seconds_of(const action& a) const;
  double start_message(int lane, const action& a);
  void send(int lane, const action& a);
  void deliver(int lane, const action& a);
  void add_span(int lane, const action& a, double begin, double end);

  int receiver_of(const action& a) const;
  bool awaits(int lane, const action& a) const;
  void meet();
  void begin_parting(int lane, bool is_paired, double end);
  void part(int lane, const action& a);

  void join_update(const action& a, double begin, double end);
  void reach_update(int lane, const action& a);
  void begin_all_reduce(const action& a);
  void plan_bucket(int flow, const action& a);
  void send_bucket(int flow, const action& a);
  void end_all_reduce(const action& a);
  void add_all_reduce(int stage, std::size_t group, double begin, double end);
  void queue_updates(int stage);
  void start_update(int device);
  void finish_update(int lane, const action& a);

  void hold_forward(int lane, const action& a);
  void hold_backward(int lane, const action& a);
  void let_go_after(int lane, const action& a);
  void let_go_input(int lane, const action& a);
  const std::vector<double>& workspace_of(int stage, action_kind kind) const;
  double held_by_sender(int stage, const action& a) const;
  version_ledger& ledger_of(int stage, int lane);
  void count_versions(int stage, int lane);
  void note_memory(int stage);
  void note_steady_state();
  double busiest() const;

  lane_state& lane_of(int lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  device_state& device_of(int device) { return devices_[static_cast<std::size_t>(device)]; }
  replica_state& own_of(int stage, int lane) {
    auto& st = stage_of(stage);
    return st.own[static_cast<std::size_t>(lane - st.first_lane)];
  }
  replica_memory& memory_of(int stage, int lane) { return own_of(stage, lane).memory; }
  stage_state& stage_of(int stage) { return stages_[static_cast<std::size_t>(stage)]; }
  const machine_stage& costs_of(int stage) const { return machine_.stages[static_cast<std::size_t>(stage)]; }
  update_state& state_of_update(const action& a) { return stage_of(a.stage).updates[group_of(a)]; }
  std::size_t group_of(const action& a) const;
  /// Where updates lag, gradients leave with the last backward that adds to them, not at the update's place.
  bool gives_early(const action& a) const { return schedule_.stages[static_cast<std::size_t>(a.stage)].update_lag > 0; }
  double seconds_of(int lane, const action& a);
  bool is_copied(int from_lane, int to_lane) const;

  const schedule& schedule_;
  const machine& machine_;
  const machine_options& options_;
  playback state_;
  machine_links links_;
  std::vector<lane_state> lanes_;
  std::vector<device_state> devices_;
  std::vector<stage_state> stages_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::int64_t made_ = 0;
  double now_ = 0;
  std::vector<int> woken_;
  std::vector<std::int32_t> unfinished_; // micro-batches of each minibatch, at the first active stage
  std::vector<double> done_;             // when that stage was done with a minibatch, in order
  machine_run result_;
};

} // namespace penstock::planner
