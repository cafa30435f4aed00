// What the coordinators of all ranks tell each other.
#pragma once

#include "kernels/loss_metrics.hpp"

#include <cstdint>
#include <string>

namespace penstock::actors {

struct note {
  enum class subject : std::uint8_t {
    drain,  ///< any rank to rank 0: end the stretch with what is admitted; 1: and the run
    pause,  ///< rank 0 to ranks with a source: admit nothing for now
    paused, ///< the answer: minibatches of the stretch that were admitted, in whole or in part
    resume, ///< rank 0 to all: the stretch has so many minibatches
    done,   ///< any rank to rank 0: all its parts have done what the stretch asks of them
    over,   ///< rank 0 to all: so have all ranks; the stretch had so many minibatches; an evaluation: whether complete
    progress, ///< any rank to rank 0: pieces of work finished so far
    describe, ///< rank 0 to all: why does nothing move?
    description
  };
  subject about = subject::drain;
  int from = 0;
  std::int64_t stretch = 0;
  std::int64_t number = 0;
  loss_metrics metrics{}; ///< `over` of an evaluation
  std::string text{};     ///< of a description
};

} // namespace penstock::actors
