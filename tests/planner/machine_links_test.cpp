// Channels of links: who waits for whom, and who need not.
#include "planner/machine_links.hpp"

#include <gtest/gtest.h>

namespace penstock::planner::testing {
namespace {

TEST(LinkChannel, IsFreeBetweenWhatIsTaken) {
  link_channel c;
  EXPECT_EQ(c.earliest(3, 2), 3);
  c.take(4, 2, 0);
  c.take(9, 1, 0);
  EXPECT_EQ(c.earliest(0, 4), 0);
  EXPECT_EQ(c.earliest(0, 5), 10);
  EXPECT_EQ(c.earliest(3, 3), 6);
  EXPECT_EQ(c.earliest(5, 1), 6);
  EXPECT_EQ(c.earliest(12, 1), 12);
  c.take(6, 3, 5); // the gap is closed
  EXPECT_EQ(c.earliest(5, 1), 10);
  EXPECT_EQ(c.taken_in_all(), 6);
}

TEST(LinkChannel, ForgetsWhatIsOver) {
  link_channel c;
  for (int i = 0; i < 1000; ++i)
    c.take(2 * i, 1, 2 * i);
  EXPECT_EQ(c.earliest(1998, 1), 1999);
  EXPECT_EQ(c.taken_in_all(), 1000);
}

TEST(LinkChannel, TwoAreTakenWhenBothAreFree) {
  link_channel a, b;
  a.take(0, 2, 0);
  b.take(3, 2, 0);
  EXPECT_EQ(earliest_of_both(a, b, 0, 1), 2);
  EXPECT_EQ(earliest_of_both(a, b, 0, 2), 5);
  EXPECT_EQ(earliest_of_both(a, a, 0, 2), 2);
}

std::vector<machine_link> level_of(int devices) {
  return {{.group = devices, .bytes_per_second = 1}};
}

TEST(MachineLinks, WhoWaitsForItsReceiverLeavesItsWayToOthers) {
  machine_links links(level_of(4), 4);
  EXPECT_EQ(links.send(0, 2, 10, 0).begin, 0);
  EXPECT_EQ(links.send(1, 2, 10, 0).begin, 10); // device 2 receives one message at a time
  EXPECT_EQ(links.send(1, 3, 6, 0).begin, 0);   // device 1 sends to another meanwhile
  EXPECT_EQ(links.send(1, 3, 6, 0).begin, 20);  // and this is too long for what is left before the second one
  EXPECT_EQ(links.most_taken(), 22);            // out of device 1
}

TEST(MachineLinks, AnAllReduceTakesBothWaysOfEveryMember) {
  machine_links links(level_of(4), 4);
  const auto three = links.route_among({0, 1, 2}, 3);
  ASSERT_EQ(three.flows.size(), 6U);
  EXPECT_DOUBLE_EQ(three.seconds_per_byte, 4.0 / 3);
  links.send(0, 3, 5, 0);
  int late = 0;
  for (std::size_t flow = 0; flow < three.flows.size(); ++flow)
    late += machine_links::reduce(three, flow, 3, 0).arrival > 4 ? 1 : 0;
  EXPECT_EQ(late, 1) << "only the way out of device 0 was taken";
  const auto two = links.route_among({0, 3}, 3);
  ASSERT_EQ(two.flows.size(), 2U) << "what one sends is what the other receives";
  EXPECT_NE(two.flows[0].from, two.flows[0].to);
}

} // namespace
} // namespace penstock::planner::testing
