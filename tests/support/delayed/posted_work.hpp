// One piece of work between the host that asks and the device that computes later.
#pragma once

#include "kernels/tensor.hpp"

#include <exception>
#include <vector>

namespace penstock::testing {

struct posted_work {
  bool has_fetched = false;
  std::vector<tensor> kept;   ///< what it reads of others, until it is complete
  std::exception_ptr failure; ///< the first one; of the device's thread
};

} // namespace penstock::testing
