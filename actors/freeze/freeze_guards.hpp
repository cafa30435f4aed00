// What keeps a freeze policy from freezing too early or too much, and thaws.
#pragma once

#include "actors/freeze/freeze_policy.hpp"

namespace penstock::actors {

/// All off unless given.
struct freeze_guards {
  double min_epochs = 0;   ///< nothing freezes before so many epochs are done
  double max_fraction = 1; ///< at most this part of the units freezes, rounded down
  std::optional<double>
      thaw_worse;         ///< thaw when the validation loss is above the best one by more than this part of it
  bool thaw_rate = false; ///< thaw when the rate is above what it was when units froze last

  friend bool operator==(const freeze_guards&, const freeze_guards&) = default;
};

/// "min-epochs=2,max-fraction=0.75,thaw-worse=0.05,thaw-rate"; "" and "off" are none. Throws usage_error naming the
/// part that is wrong.
freeze_guards parse_freeze_guards(std::string_view text);
/// As parse_freeze_guards takes it; "off" where all are off.
std::string text_of(const freeze_guards& guards);

struct guarded_depth {
  int depth = 0;
  bool thaws = false;
  std::string why; ///< which guard decided and by what numbers; "" where none did
};

/// What becomes of a policy's answer. Thawing goes before everything and is whole; then nothing thaws; then
/// `min-epochs` keeps the depth, then `max-fraction` caps it. `best`: the least validation loss since the run began or
/// was thawed.
guarded_depth guard_depth(const freeze_guards& guards, const freeze_statistics& seen, int asked, double best);

} // namespace penstock::actors
