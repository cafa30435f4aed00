// What the tests of endpoints share: every kind of endpoint by name, and a receiver that keeps what comes.
#pragma once

#include "transport/endpoint.hpp"
#include "transport/ucx/ucx.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <iosfwd>
#include <mutex>

namespace penstock::transport {

using namespace std::chrono_literals;

/// For waits that are not what is tested.
inline constexpr std::chrono::milliseconds patience = 30s;

using endpoints = std::vector<std::unique_ptr<endpoint>>;

/// Connected endpoints over UCX, all in this process; throws what a rank's connect() throws.
endpoints connect_over_ucx(int size, const std::function<void(ucx_options&)>& adjust);

/// A way to make connected endpoints.
struct endpoint_kind {
  std::string name;
  bool needs_ucx = false;
  bool reports_losses = true; ///< shared memory does not
  std::function<endpoints(int size)> make;
};
void PrintTo(const endpoint_kind& kind, std::ostream* to);
const std::vector<endpoint_kind>& endpoint_kinds();

/// Each test runs over every kind of endpoint.
class EndpointTest : public testing::TestWithParam<endpoint_kind> {
protected:
  void SetUp() override {
    if (GetParam().needs_ucx && !ucx_available()) GTEST_SKIP() << "this build has no UCX";
  }
  endpoints make(int size) const { return GetParam().make(size); }
};

/// A message and who sent it.
struct received {
  int peer = -1;
  message content;
};

/// Keeps messages until next() asks for them.
class mailbox : public receiver {
public:
  part place(int peer, std::string_view header, std::size_t index, std::size_t bytes) override;
  void take(int peer, message m) override;
  /// Fails the test when nothing comes.
  received next();
  std::size_t count() const;

private:
  memory_pool pool_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<received> waiting_;
};

std::shared_ptr<mailbox> open_mailbox(endpoint& at, channel from);

/// `bytes` bytes that depend on the seed and their place.
part patterned(std::size_t bytes, unsigned seed);
bool has_pattern(const part& p, std::size_t bytes, unsigned seed);

/// Counts down to an event, with a deadline.
class signal {
public:
  explicit signal(int expected = 1) : missing_(expected) {}
  void notify();
  bool wait(std::chrono::milliseconds within = patience);

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int missing_;
};

} // namespace penstock::transport
