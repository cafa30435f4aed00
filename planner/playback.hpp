// What a schedule's actions wait for: the rules of running shared by the checker and the simulator.
#pragma once

#include "planner/schedule.hpp"

#include <cstddef>
#include <deque>
#include <optional>

namespace penstock::planner {

/// The state of a run of the lists, without a clock. A lane is one stage replica; lanes are numbered stage by stage.
/// The lists must hold nothing out of range. The caller decides when a started action ends and its messages arrive.
/// With a window w > 0 the first runnable action at most w places behind a lane's head goes first; never a forward
/// before an earlier forward, nor a backward or update before an earlier backward or update.
class playback {
public:
  playback(const schedule& s, int window);

  int lanes() const { return static_cast<int>(lanes_.size()); }
  int stage(int lane) const { return at(lane).stage; }
  int replica(int lane) const { return at(lane).replica; }
  /// The lane of a stage that handles an action's micro-batch.
  int lane_for(int stage, const action& a) const;
  int first_lane(int stage) const { return state_of(stage).first_lane; }
  /// The first action not started; null at the list's end.
  const action* head(int lane) const;
  /// What the lane may do now; null if nothing. A forward waits for its input (on stage 0 for the source's credit), its
  /// version and the lane's credit, a backward for its gradient and its version, an update for nothing.
  const action* runnable(int lane) const;
  /// Starts what runnable() gave.
  void start(int lane, const action& a);
  /// Both.
  const action* start_next(int lane);

  /// The output of a forward reaches the stage after `stage`; on the last one it becomes the loss's gradient.
  void deliver_activation(int stage, const action& forward);
  /// The result of a backward reaches the stage before `stage`, or returns a credit to the source.
  void deliver_gradient(int stage, const action& backward);
  /// One replica has applied its next update to weights that its stage shares: the version exists once all have.
  void finish_update(int lane);
  /// The same on weights of its own: the version exists there.
  void finish_own_update(int lane);
  /// Lanes that may have become runnable since the last call; all at first. `woken` is overwritten.
  void take_woken(std::vector<int>& woken);

  /// Whom a lane's head that cannot run waits for, and for what.
  struct obstacle {
    int lane = 0;
    std::string reason;
  };
  obstacle blocked_by(int lane) const;

private:
  struct lane_state {
    int stage = 0;
    int replica = 0;
    std::size_t head = 0;
    std::deque<bool> started; // from head on
    std::int64_t in_flight = 0;
    std::int64_t updates = 0;
    std::int64_t version = 0; // the newest that it may read
  };
  struct stage_state {
    int first_lane = 0;
    std::vector<bool> activation_here, gradient_here; // by running number
  };

  const lane_state& at(int lane) const { return lanes_[static_cast<std::size_t>(lane)]; }
  const stage_state& state_of(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }
  const std::vector<action>& list(int lane) const;
  std::size_t running(const action& a) const;
  bool input_is_here(int stage, const action& a) const;
  bool is_runnable(int lane, const action& a) const;
  std::optional<std::size_t> runnable_offset(int lane) const;
  obstacle missing_credit() const;
  obstacle missing_version(int stage, std::int64_t version) const;

  const schedule& schedule_;
  std::size_t window_;
  std::vector<lane_state> lanes_;
  std::vector<stage_state> stages_;
  std::int64_t admitted_ = 0; // by the source
  std::vector<int> woken_;
};

/// "forward of minibatch 3 micro-batch 0", "update 2".
std::string describe(const action& a);
/// "stage 1 replica 0".
std::string describe_place(int stage, int replica);

} // namespace penstock::planner
