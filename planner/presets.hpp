// What distinguishes the schedules from one another: flags for the one generator, not code.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace penstock::planner {

enum class action_order : std::uint8_t { one_forward_one_backward, all_forwards_first, chunks_in_turn };

/// When the pipeline runs empty: after every minibatch, or only at the drain.
enum class flush_point : std::uint8_t { minibatch, drain };

/// What one update is made of.
enum class update_unit : std::uint8_t {
  minibatch,            ///< applied as soon as its backwards are done
  minibatch_after_next, ///< 2bw: applied once the next minibatch's forwards, which must not see it, are done as well
  replica_group         ///< R_s consecutive minibatches, one of each replica
};

enum class version_rule : std::uint8_t {
  stashed,            ///< a forward reads the newest version, its backward the same
  vertical,           ///< every stage reads what stage 0 would read
  newest_for_backward ///< pipedream-naive
};

enum class credit_default : std::uint8_t { one, tight, doubled, whole_minibatch, warm_up };

struct preset {
  std::string_view name;
  action_order order = action_order::one_forward_one_backward;
  flush_point flush = flush_point::minibatch;
  update_unit unit = update_unit::minibatch;
  version_rule versions = version_rule::stashed;
  credit_default credit = credit_default::tight;
  bool splits_backward = false; ///< weight gradients may come later than input gradients
};

/// In the order of DESIGN section 2's table.
const std::vector<preset>& presets();

/// Throws std::invalid_argument, with the nearest name suggested, if there is none of this name.
const preset& find_preset(std::string_view name);

} // namespace penstock::planner
