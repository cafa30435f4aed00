// The delayed device shows each way to break the contract: devices with a fault, and hosts that are too early.
#include "kernels/check.hpp"
#include "tests/kernels/delayed/delayed_test.hpp"

#include <cmath>

namespace penstock::testing {
namespace {

bool all_nan(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

/// What a reader on another device sees of a tensor whose last handle is dropped while the reader is still to come.
std::vector<float> seen_by_a_late_reader(const delayed_options& reader_options) {
  memory_pool host;
  delayed_machine owner, reader(reader_options);
  tensor x, seen;
  owner.work->run([&](backend& ops) { x = ops.from_host(counting(host, 6), memory_use::activations); });
  barrier there;
  std::promise<void> asked;
  auto done = reader.work->start([&](backend& ops) {
    there.hold(ops);
    seen = ops.to_host(ops.copy(x, memory_use::activations), host);
    asked.set_value();
  });
  asked.get_future().wait();
  x = {};
  owner.work->run([](backend&) {}); // the owner's stream has come past it
  there.let_go();
  done.get();
  return values_of(seen);
}

TEST(DelayedFaults, ForeignMemoryIsKeptUntilItsReaderIsComplete) {
  EXPECT_EQ(seen_by_a_late_reader({}), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(DelayedFaults, AnEarlyReuseIsSeenAsPoison) {
  EXPECT_TRUE(all_nan(seen_by_a_late_reader({.keeps_what_it_reads = false})));
}

/// What the host finds in its copy at the completion of the work that asked for it, while the device stands still.
std::vector<float> found_at_completion(const delayed_options& options) {
  memory_pool host;
  barrier there;
  std::promise<void> asked;
  std::promise<std::vector<float>> found;
  tensor copied;
  delayed_machine one(options); // ends before what it uses
  one.work->post(
      [&](backend& ops) {
        there.hold(ops);
        copied = ops.to_host(ops.from_host(counting(host, 3), memory_use::activations), host);
        asked.set_value();
      },
      [&](std::exception_ptr) { found.set_value(values_of(copied)); });
  asked.get_future().wait();
  auto result = found.get_future();
  if (!options.completes_when_finished) result.wait();
  there.let_go();
  return result.get();
}

TEST(DelayedFaults, ACopyIsThereAtTheCompletionOfItsWork) {
  EXPECT_EQ(found_at_completion({}), (std::vector<float>{0, 1, 2}));
}

TEST(DelayedFaults, ACompletionThatLetsGoTooSoonIsSeenAsPoison) {
  EXPECT_TRUE(all_nan(found_at_completion({.completes_when_finished = false})));
}

TEST(DelayedFaults, AHostThatReadsItsCopyBeforeTheCompletionSeesPoison) {
  memory_pool host;
  delayed_machine one;
  barrier there;
  std::vector<float> early;
  one.work->run([&](backend& ops) {
    there.hold(ops);
    early = values_of(ops.to_host(ops.from_host(counting(host, 3), memory_use::activations), host));
    there.let_go();
  });
  EXPECT_TRUE(all_nan(early));
}

TEST(DelayedFaults, AnOperationOnTheHostsMemoryIsRefused) {
  memory_pool host;
  delayed_machine one;
  EXPECT_THROW(one.work->run([&](backend& ops) { ops.copy(counting(host, 3), memory_use::activations); }),
               std::logic_error);
}

} // namespace
} // namespace penstock::testing
