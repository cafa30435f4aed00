// Lines about a job that stay few however many ranks it has.
#include "apps/runner/routes_text.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using route_table = std::vector<std::vector<std::string>>;

std::vector<transport::member> members_on(const std::vector<std::string>& hosts) {
  std::vector<transport::member> all;
  for (const auto& host : hosts)
    all.push_back({host, "identity of " + host, 100 + std::ssize(all)});
  return all;
}

// Shared memory inside hosts, tcp between them.
route_table usual_routes(const std::vector<transport::member>& members) {
  route_table routes;
  for (const auto& from : members) {
    auto& row = routes.emplace_back();
    for (const auto& to : members)
      row.push_back(from.host == to.host ? "shared memory" : "tcp over eth0");
  }
  return routes;
}

TEST(MembersText, IsALineForEachHost) {
  std::vector<std::string> hosts(64, "a");
  std::fill(hosts.begin() + 32, hosts.end(), "b");
  EXPECT_THAT(members_text(members_on(hosts)),
              ElementsAre("a: ranks 0-31, processes 100-131", "b: ranks 32-63, processes 132-163"));
}

TEST(MembersText, KeepsRanksAndProcessesInTheSameOrder) {
  auto members = members_on({"a", "b", "a", "a"});
  members[2].process = 99;
  EXPECT_THAT(members_text(members), ElementsAre("a: ranks 0, 2-3, processes 100, 99, 103", "b: rank 1, process 101"));
}

TEST(MembersText, TellsNamespacesOfOneMachineApart) {
  auto members = members_on({"a", "a"});
  members[1].host_identity = "another namespace";
  EXPECT_THAT(members_text(members), ElementsAre("a: rank 0, process 100", "a: rank 1, process 101"));
}

TEST(RoutesText, IsOneLineWhereAllPairsAreAlike) {
  const auto near = members_on({"a", "a", "a"});
  EXPECT_THAT(routes_text(near, usual_routes(near)), ElementsAre("all pairs: shared memory"));
  const auto far = members_on({"a", "b"});
  EXPECT_THAT(routes_text(far, usual_routes(far)), ElementsAre("all pairs: tcp over eth0"));
  EXPECT_THAT(routes_text(members_on({"a"}), {{"itself"}}), IsEmpty());
}

TEST(RoutesText, TellsInsideFromBetween) {
  std::vector<std::string> hosts(64, "a");
  std::fill(hosts.begin() + 32, hosts.end(), "b");
  const auto members = members_on(hosts);
  EXPECT_THAT(routes_text(members, usual_routes(members)),
              ElementsAre("inside hosts: shared memory", "between hosts: tcp over eth0"));
}

TEST(RoutesText, NamesAFewOfThePairsThatDiffer) {
  const auto members = members_on({"a", "a", "a", "a", "a"});
  auto routes = usual_routes(members);
  routes[1][3] = routes[3][1] = "tcp over lo";
  routes[4][0] = "tcp over lo";
  EXPECT_THAT(
      routes_text(members, routes),
      ElementsAre("all pairs: shared memory", "  but 0-4: shared memory, back tcp over lo", "  but 1-3: tcp over lo"));
  const auto many = members_on(std::vector<std::string>(8, "a"));
  routes = usual_routes(many);
  for (std::size_t r = 1; r < 8; ++r)
    routes[0][r] = routes[r][0] = "tcp over lo";
  EXPECT_THAT(routes_text(many, routes),
              ElementsAre("all pairs: shared memory", "  but 0-1, 0-2, 0-3, 0-4, 0-5, 0-6 and 1 more: tcp over lo"));
}

TEST(PackedRoutes, ComeBackAsTheyWere) {
  for (const auto& routes : {std::vector<std::string>{}, {"itself"}, {"itself", "a b", "a b", "", "c"}})
    EXPECT_EQ(unpack_routes(pack_routes(routes), routes.size()), routes);
  EXPECT_EQ(pack_routes(std::vector<std::string>(1000, "tcp")), "1000 tcp\n");
}

TEST(PackedRoutes, RefuseWhatIsNotOfThatManyPeers) {
  for (const auto* packed : {"", "1 a\n", "3 a\n", "18446744073709551615 a\n", "-1 a\n", "x\n", "2", "2 a", "2\n"})
    EXPECT_THROW(unpack_routes(packed, 2), error) << packed;
}

} // namespace
} // namespace penstock::apps
