// A profile of a device that computes later than it is asked to.
#include "actors/profiler/profile_model.hpp"
#include "tests/support/delayed/counters.hpp"
#include "tests/support/delayed/delayed_kind.hpp"
#include "tests/support/tiny_training.hpp"

#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

TEST(ProfileOfADelayedDevice, AsksTheOtherWorkersForNoMoreThanTheyCanDo) {
  add_device_kind(delayed_kind("delayed"));
  actors::profile_options o;
  o.device = "delayed";
  o.samples = {8};
  o.workers = {2};
  o.warmup = 3;
  o.repeats = 12;
  counted().reset();
  actors::profile_model(tiny_residual_network(), "tiny", o);
  EXPECT_LT(counted().ops, 600 * counted().works); // a pass asks for some 200
}

} // namespace
} // namespace penstock::testing
