// Probes of a link: figures that make sense, and an end when nobody answers.
#include "kernels/check.hpp"
#include "transport/in_process.hpp"
#include "transport/link_probe.hpp"

#include <gmock/gmock.h>

namespace penstock::transport {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(LinkProbe, GivesALatencyAndABandwidth) {
  const auto ranks = make_in_process_endpoints(2);
  link_probe first(*ranks[0], channel{7});
  link_probe second(*ranks[1], channel{7});
  const auto link = first.measure(1, 60s);
  EXPECT_GT(link.latency_s, 0);
  EXPECT_GT(link.bandwidth_bytes_per_s, 0);
  EXPECT_GT(second.measure(0, 60s).bandwidth_bytes_per_s, 0) << "the other way round, with the same two";
}

TEST(LinkProbe, NamesThePeerThatDoesNotAnswer) {
  const auto ranks = make_in_process_endpoints(2);
  link_probe alone(*ranks[0], channel{7});
  EXPECT_THAT([&] { alone.measure(1, 50ms); }, ThrowsMessage<error>(HasSubstr("rank 1 does not answer")));
}

} // namespace
} // namespace penstock::transport
