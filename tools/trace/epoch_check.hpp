// The check of one plan epoch: what of a history concerns its schedule alone.
#pragma once

#include "actors/trace/record.hpp"
#include "actors/trace/violations.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace penstock::actors {

/// What the check must know of the epoch beside its header.
struct checked_epoch {
  bool is_first = true;  ///< its versions go on where a resumed run's do; those of a later one count from 0
  bool is_named = false; ///< violations name epoch and stretch: the run has several
  std::size_t number = 0;
  std::string end; ///< "the run has 11 minibatches": why nothing may follow its last one
};

/// "plan epoch 1, stretch 3: "; "" where epochs are not named.
std::string place_of(const checked_epoch& epoch, int stretch);

/// Checks what check_history promises (trace/history.hpp) of the records of one plan epoch. `header`: the epoch's own
/// (trace/plan_epochs.hpp); `records` in order of begin, of stages and replicas that its plan has.
void check_epoch(const checked_epoch& epoch, const trace_header& header, const std::vector<trace_record>& records,
                 violations& found);

} // namespace penstock::actors
