// The one interpreter of a schedule: what a worker does next, and what that waits for.
#pragma once

#include "planner/sequence.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace penstock::planner {

/// What the worker has at hand. Minibatches count from the last drain, versions from the stage's updates at that drain.
class readiness {
public:
  virtual ~readiness() = default;
  virtual bool has_input(const action& forward) const = 0;
  virtual bool has_gradient(const action& backward) const = 0;
  virtual bool has_version(int stage, std::int64_t version) const = 0;
};

enum class block_reason : std::uint8_t { none, finished, no_input, no_gradient, no_credit, no_version };

struct blocked_action {
  block_reason why = block_reason::none;
  action what; ///< the first one not begun, which waits
};

/// A place in a worker's sequence, for the checker, the simulator and the actors alike.
///
/// Actions begin in order, except that with a window w > 0 one of the next w actions after the head may go first; of
/// one stage never a forward before an earlier forward, nor a backward or update before an earlier backward or update
/// (DESIGN section 2). A forward waits for its stage's credit, its version and its input; a backward, or the input's
/// part of one, for its gradient, and where weights are not stashed for its version; the weights' part and an update
/// for nothing more. A credit comes back when a backward, or the input's part of one, begins: work is done in the order
/// in which it was begun. A forward of a frozen stage takes none: how many are begun and not ended is for whoever runs
/// them to bound by the stage's credit.
class worker_cursor {
public:
  /// Finished.
  worker_cursor() = default;
  worker_cursor(const schedule& s, const worker& w);
  /// In another order than the schedule's.
  worker_cursor(const schedule& s, const worker& w, sequence order);

  /// The action that may begin now, or why the head may not.
  std::optional<action> next(const readiness& ready, blocked_action* blocked = nullptr) const;
  /// Marks it as begun. Throws std::logic_error for what next() could not have given.
  void begin(const action& a);
  bool finished() const { return !head(); }
  /// The first action that has not begun.
  const std::optional<action>& head() const { return at_head_.peek(); }

  /// Forwards of the stage without their backward; 0 of a frozen one.
  std::int64_t in_flight(int stage) const;
  /// No version of the stage below it will be looked up again; none when none will.
  std::optional<std::int64_t> oldest_needed(int stage) const;
  /// The next action that makes a weight gradient of the stage; none when all have begun.
  const std::optional<action>& next_gradient(int stage) const { return next_gradient(of(stage)); }
  /// True while a backward whose weight gradient goes into that update has not begun.
  bool has_backward_for(int stage, std::int64_t update) const;

  /// The same run, ended after fewer minibatches, of which all later ones have begun nothing. An update that the new
  /// end removes may have begun on a replica that had nothing to add to it. Throws std::logic_error, and leaves the
  /// cursor as it was, where more has begun.
  void end_after(std::int64_t minibatches);

  /// For w = 0: numbers that decide all that follows but for the end; see generator.
  bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const;

private:
  struct hosted {
    int stage = 0;
    std::int64_t credit = 1;
    std::int64_t per_update = 1; // minibatches
    bool is_frozen = false;
    std::int64_t in_flight = 0;
    // From the first that has not begun; made when first asked for, since the simulator never does.
    mutable std::optional<stage_passes> forwards, gradients;
  };
  /// An action of the window.
  struct seen {
    action what;
    bool begun = false;
  };

  std::size_t place_of(int stage) const;
  const hosted& of(int stage) const { return stages_[place_of(stage)]; }
  block_reason obstacle(const action& a, const readiness& ready) const;
  std::optional<action> next_in_window(const readiness& ready, blocked_action* blocked) const;
  void begin_in_window(const action& a);
  std::size_t lane_of(const action& a) const;
  void look_ahead();
  void pass_begun();
  void find_begun(const std::vector<action>& begun);
  const std::optional<action>& next_forward(const hosted& h) const;
  const std::optional<action>& next_gradient(const hosted& h) const;
  stage_passes passes_of(const hosted& h, stage_passes::kind kind) const;

  std::vector<hosted> stages_;
  sequence at_head_;
  std::size_t window_ = 0;
  bool stashes_weights_ = true;
  // With a window: what it shows, from the head on, the first never begun; as far as anything in it could go first.
  std::deque<seen> window_actions_;
  sequence beyond_;
};

} // namespace penstock::planner
