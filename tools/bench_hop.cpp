// How long a message takes from one stage actor to the next: pipelines of layers that compute nothing, one minibatch
// in flight, so that the time of a step is 2 (n - 1) hops and the ends. Prints the median hop.
#include "actors/profiler/measure_machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

using penstock::actors::idle_step_seconds;

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 2000;
  std::vector<double> hops;
  for (int round = 0; round < 5; ++round) {
    const double few = 1e6 * idle_step_seconds(4, steps);
    const double many = 1e6 * idle_step_seconds(12, steps);
    // Eight more stages are eight more hops forward and eight back, each with its piece of work on the stage's stream.
    hops.push_back((many - few) / 16);
    std::printf("round %d: step with 4 stages %.1f us, with 12 stages %.1f us: %.1f us a hop\n", round + 1, few, many,
                hops.back());
  }
  std::sort(hops.begin(), hops.end());
  std::printf("median hop (mailbox, decision, stream and back): %.1f us\n", hops[hops.size() / 2]);
}
