// The planner knows no error types of ours: what it refuses is the user's to mend.
#pragma once

#include "kernels/check.hpp"

#include <stdexcept>

namespace penstock::actors {

/// What `ask` returns; its std::invalid_argument becomes a usage_error of the same text.
template <class Ask>
auto asking_the_planner(Ask ask) {
  try {
    return ask();
  } catch (const std::invalid_argument& refusal) {
    throw usage_error(refusal.what());
  }
}

} // namespace penstock::actors
