// A device that proves the contract of devices without a GPU: it computes what the reference loops compute, but on
// another thread, later and in bursts, in memory that the host cannot read, and spoils what is reused too early.
#pragma once

#include "kernels/device.hpp"

#include <cstdint>

namespace penstock::testing {

/// The faults are for tests that show that they are seen.
struct delayed_options {
  std::uint64_t seed = 1;
  bool keeps_what_it_reads = true;     ///< of other devices' memory, until the work is complete
  bool completes_when_finished = true; ///< false: as soon as all is asked for
};

/// One memory with at most one stream at a time. Its id is cpu:0, and its bits are the reference loops'.
std::shared_ptr<device> open_delayed_device(const delayed_options& options = {});

} // namespace penstock::testing
