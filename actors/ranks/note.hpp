// What the coordinators of all ranks tell each other, by way of the control plane.
#pragma once

#include "kernels/loss.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::actors {

struct note {
  enum class subject : std::uint8_t {
    drain,  ///< any rank to rank 0: end the segment with what is admitted
    pause,  ///< rank 0 to ranks with a source: admit nothing for now
    paused, ///< the answer: minibatches of the segment that were admitted, in whole or in part
    resume, ///< rank 0 to all: the segment has so many minibatches
    done,   ///< any rank to rank 0: all its parts have done what the segment asks of them
    over,   ///< rank 0 to all: so have all ranks; the segment had so many minibatches; an evaluation: whether complete
    progress, ///< any rank to rank 0: pieces of work finished so far
    describe, ///< rank 0 to all: why does nothing move?
    description
  };
  subject about = subject::drain;
  int from = 0;
  std::int64_t segment = 0;
  std::int64_t number = 0;
  loss_metrics metrics; ///< `over` of an evaluation
  std::string text;     ///< of a description
};

std::string encode(const note& n);
/// Throws penstock::error for a text that encode() did not write.
note decode_note(std::string_view text);

} // namespace penstock::actors
