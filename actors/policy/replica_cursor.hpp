// Decides what a stage replica does next: the schedule's list, a position, and what has arrived.
#pragma once

#include "planner/schedule.hpp"

#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace penstock::actors {

/// What the replica has at hand. Minibatches count from the last drain, versions from the stage's at that drain.
class replica_readiness {
public:
  virtual ~replica_readiness() = default;
  virtual bool has_input(std::int64_t minibatch, std::int32_t microbatch) const = 0;
  virtual bool has_gradient(std::int64_t minibatch, std::int32_t microbatch) const = 0;
  virtual bool has_version(std::int64_t version) const = 0;
};

enum class block_reason : std::uint8_t { none, finished, no_input, no_gradient, no_credit, no_version };

struct blocked_action {
  block_reason why = block_reason::none;
  planner::action what; ///< the head of the list, which waits
};

/// Invariant: actions are begun in list order, except that with a window w > 0 one of the next w actions after the
/// head may go first; never a forward before an earlier forward, nor a backward or update before an earlier backward
/// or update (DESIGN section 2). At most `credit` forwards are without their backward.
class replica_cursor {
public:
  replica_cursor() = default;
  replica_cursor(const planner::replica_list* list, std::int64_t credit, int window, bool stashes_weights);

  /// The action that may begin now, or why the head may not.
  std::optional<planner::action> next(const replica_readiness& ready, blocked_action* blocked = nullptr) const;
  /// Marks it as begun. A backward gives its credit back: work on a stream runs in the order it was posted.
  void begin(const planner::action& a);
  bool finished() const { return list_ == nullptr || head_ >= list_->actions.size(); }
  std::int64_t in_flight() const { return in_flight_; }
  /// The oldest version that a later action still has to look up; none when no action will.
  std::optional<std::int64_t> oldest_needed() const;
  /// True while a backward that goes into that update has not begun; `update_of` says into which one a backward goes.
  bool has_backward_for(std::int64_t update,
                        const std::function<std::int64_t(const planner::action&)>& update_of) const;
  /// The same run, ended earlier: a prefix-stable list (planner::make_schedule) takes this one's place.
  void replace(const planner::replica_list* shorter);

private:
  bool is_done(std::size_t position) const;
  void pass_begun();
  block_reason obstacle(const planner::action& a, const replica_readiness& ready) const;

  const planner::replica_list* list_ = nullptr;
  std::int64_t credit_ = 1;
  std::size_t window_ = 0;
  bool stashes_weights_ = true;
  std::size_t head_ = 0;   // everything before is begun
  std::deque<bool> ahead_; // begun, from head_ on
  std::int64_t in_flight_ = 0;
};

std::string to_string(const planner::action& a);

} // namespace penstock::actors
