// How often a training run waits for its devices, counted on the delayed one.
#include "tests/support/delayed/counters.hpp"
#include "tests/support/delayed/delayed_kind.hpp"
#include "tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

struct counts {
  std::int64_t fetches = 0, host_copies = 0, host_waits = 0;
};

class Synchronisations : public ::testing::Test {
public:
  static void SetUpTestSuite() { add_device_kind(delayed_kind("delayed")); }

  static counts counts_of(run_setup o, std::int64_t steps) {
    o.device = "delayed";
    o.steps = steps;
    o.eval_every = -1;
    counted().reset();
    train_tiny(o);
    const auto& c = counted();
    return {c.fetches, c.host_copies, c.host_waits};
  }
  /// Of 24 minibatches more.
  static counts of_steady_minibatches(const run_setup& o) {
    const auto less = counts_of(o, 24), more = counts_of(o, 48);
    return {more.fetches - less.fetches, more.host_copies - less.host_copies, more.host_waits - less.host_waits};
  }
};

TEST_F(Synchronisations, OfASteadyRunAreNoMoreThanOneForAMicroBatchOfAStage) {
  for (const auto& [schedule, microbatches] : {std::pair{"pipedream", 1}, {"1f1b", 4}, {"2bw", 4}, {"zb-h1", 2}})
    for (const int stages : {1, 2}) {
      auto o = tiny_options();
      o.schedule = schedule;
      o.microbatches = microbatches;
      o.replicas.assign(static_cast<std::size_t>(stages), 1);
      const auto steady = of_steady_minibatches(o);
      // The loss of each micro-batch; on the other stages an update's flags, with the first forward behind it.
      EXPECT_EQ(steady.fetches, 24 * (microbatches + stages - 1)) << schedule << ", " << stages << " stages";
      EXPECT_EQ(steady.host_copies, 0) << schedule << ", " << stages << " stages";
      EXPECT_EQ(steady.host_waits, 0) << schedule << ", " << stages << " stages";
    }
}

} // namespace
} // namespace penstock::testing
