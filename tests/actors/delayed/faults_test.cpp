// Whole runs on delayed devices: one that keeps the contract leaves the reference loops' bits, one that breaks it ends
// the run.
#include "kernels/check.hpp"
#include "tests/support/delayed/delayed_kind.hpp"
#include "tests/support/tiny_training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::testing {
namespace {

training_result train_on(const std::string& kind, const delayed_options& how) {
  add_device_kind({kind,
                   [how](int) {
                     static std::atomic<std::uint64_t> opened{0};
                     auto one = how;
                     one.seed = ++opened;
                     return open_delayed_device(one);
                   },
                   "reference loops"});
  auto o = tiny_options();
  o.device = kind;
  o.replicas = {2, 1};
  return train_tiny(o);
}

TEST(RunsOnADelayedDevice, LeaveTheBitsOfTheReferenceLoops) {
  auto o = tiny_options();
  o.reference_kernels = true;
  o.replicas = {2, 1};
  const auto wanted = train_tiny(o).summary, found = train_on("good", {}).summary;
  EXPECT_EQ(found.weights_sha256, wanted.weights_sha256);
  EXPECT_EQ(found.state_sha256, wanted.state_sha256);
}

TEST(RunsOnADelayedDevice, EndWhenAnotherDevicesMemoryIsReusedTooEarly) {
  EXPECT_THAT([] { train_on("forgetful", {.keeps_what_it_reads = false}); },
              ::testing::ThrowsMessage<error>(::testing::HasSubstr("not finite")));
}

TEST(RunsOnADelayedDevice, EndWhenACompletionComesTooSoon) {
  EXPECT_ANY_THROW(train_on("hasty", {.completes_when_finished = false}));
}

} // namespace
} // namespace penstock::testing
