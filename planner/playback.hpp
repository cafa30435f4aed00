// A whole pipeline without a clock: every worker's place, and what has arrived where. Shared by checker and simulator.
#pragma once

#include "planner/schedule.hpp"
#include "planner/sliding.hpp"
#include "planner/worker_cursor.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace penstock::planner {

/// A lane is one worker; lanes are numbered as workers_of() gives them. The orders must hold nothing out of range. The
/// caller decides when a started action ends and its messages arrive. What a lane may do is worker_cursor's to say; the
/// source's credit is kept here. Its memory grows with what is in flight, not with the minibatches.
class playback {
public:
  playback(const schedule& s, int window);
  /// With an order for each lane.
  playback(const schedule& s, int window, std::vector<sequence> orders);
  playback(const playback&) = delete;
  playback& operator=(const playback&) = delete;

  int lanes() const { return static_cast<int>(lanes_.size()); }
  int position(int lane) const { return at(lane).who.position; }
  int replica(int lane) const { return at(lane).who.replica; }
  /// The lane of a stage that handles an action's micro-batch.
  int lane_for(int stage, const action& a) const;
  int first_lane(int stage) const { return stages_[static_cast<std::size_t>(stage)].first_lane; }
  /// The first action not started; none at the end.
  const std::optional<action>& head(int lane) const { return at(lane).cursor.head(); }
  /// What the lane may do now, if anything.
  std::optional<action> runnable(int lane) const;
  /// Starts what runnable() gave.
  void start(int lane, const action& a);
  /// Both.
  std::optional<action> start_next(int lane);

  /// The output of a forward reaches the next stage; on the last one it becomes the loss's gradient.
  void deliver_activation(const action& forward);
  /// The result of a backward (or of its input's part) reaches the stage before, or returns a credit to the source.
  void deliver_gradient(const action& backward);
  /// One replica has applied its next update to weights that its stage shares: the version exists once all have.
  void finish_update(int stage, int replica);
  /// The same on weights of its own: the version exists there.
  void finish_own_update(int stage, int replica);
  /// Lanes that may have become runnable since the last call; all at first. `woken` is overwritten.
  void take_woken(std::vector<int>& woken);

  /// Lets the source admit no more than so many minibatches until told otherwise.
  void hold_source_at(std::int64_t minibatches);
  /// Numbers that decide all that follows but for the end, counted from `origin`; see generator. False if there are
  /// none for one of the orders, or with a window.
  bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const;

  /// Whom a lane's head that cannot run waits for, and for what.
  struct obstacle {
    int lane = 0;
    std::string reason;
  };
  obstacle blocked_by(int lane) const;

private:
  class view;
  enum class message : std::uint8_t { none, here, used };

  struct lane_state {
    worker who;
    worker_cursor cursor;
  };
  /// One replica of one stage.
  struct place {
    std::int64_t updates = 0;
    std::int64_t version = 0;                // the newest that it may read
    sliding<message> activations, gradients; // by the replica's own count of micro-batches
  };
  struct stage_state {
    int first_lane = 0;
    std::vector<place> replicas;
  };

  const lane_state& at(int lane) const { return lanes_[static_cast<std::size_t>(lane)]; }
  place& place_of(int stage, int replica) {
    return stages_[static_cast<std::size_t>(stage)].replicas[static_cast<std::size_t>(replica)];
  }
  const place& place_of(int stage, int replica) const {
    return stages_[static_cast<std::size_t>(stage)].replicas[static_cast<std::size_t>(replica)];
  }
  std::int64_t running(const action& a) const { return a.minibatch * schedule_.microbatches + a.microbatch; }
  /// The micro-batch's number among those of its replica.
  std::int64_t index(int stage, const action& a) const {
    const auto replicas = schedule_.stages[static_cast<std::size_t>(stage)].replicas;
    return replicas == 1 ? running(a) : running(a) / replicas;
  }
  static bool is_here(const sliding<message>& messages, std::int64_t index);
  static void put(sliding<message>& messages, std::int64_t index);
  static void use(sliding<message>& messages, std::int64_t index);
  std::int64_t total() const { return schedule_.minibatches * schedule_.microbatches; }
  void admit();
  obstacle missing_credit() const;
  obstacle missing_version(int stage, std::int64_t version) const;

  const schedule& schedule_;
  std::vector<lane_state> lanes_;
  std::vector<stage_state> stages_;
  std::int64_t credits_ = 0;  // of the source
  std::int64_t admitted_ = 0; // by it
  std::int64_t held_at_ = std::numeric_limits<std::int64_t>::max();
  std::vector<int> woken_;
};

} // namespace penstock::planner
