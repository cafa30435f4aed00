// What a kind of schedule must offer to be run: one worker's actions in order, a place among them, and an end.
#pragma once

#include "planner/schedule.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace penstock::planner {

/// A place in the order in which one worker acts. Its memory must not grow with the number of minibatches.
///
/// Orders are prefix-stable: up to the first forward of minibatch T the order does not depend on the end, if that is T
/// or later. So a run that has begun nothing of minibatch T may be made to end there at any place. One thing alone can
/// be ahead of it then: a replica to which an update of minibatch T or later takes nothing of its own may be past that.
class generator {
public:
  virtual ~generator() = default;
  virtual std::unique_ptr<generator> clone() const = 0;

  /// The action at this place; none at the end.
  virtual std::optional<action> peek() const = 0;
  /// To the next place; not at the end.
  virtual void advance() = 0;
  /// Makes the stretch end after so many minibatches, if it had more. Throws std::logic_error (begun_beyond_the_end),
  /// and stays as it was, where a forward or backward of a later one lies behind.
  virtual void end_after(std::int64_t minibatches) = 0;

  static constexpr const char* begun_beyond_the_end = "the shorter schedule lacks an action that was already begun";

  /// Appends numbers that decide all that follows but for the end, minibatches counted from `origin`, a multiple of the
  /// schedule's dealing period, and updates from those of the minibatches before it: what follows two places with equal
  /// numbers is equal but for the shift. False for an order that has no such numbers.
  virtual bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const = 0;

protected:
  generator() = default;
  generator(const generator&) = default;
  generator& operator=(const generator&) = default;
};

/// The order that the schedule's name stands for (planner/presets.hpp). Throws std::invalid_argument for an unknown
/// one.
std::unique_ptr<generator> make_generator(const schedule& s, const worker& w);

} // namespace penstock::planner
