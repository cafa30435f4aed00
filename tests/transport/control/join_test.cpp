// Ranks find each other over TLS, talk, measure clocks and part; or learn in one line why not.
#include "kernels/check.hpp"
#include "tests/transport/control/test_job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <future>
#include <netdb.h>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace penstock::transport {
namespace {

using test::error_of;
using test::on_all;
using test::test_job;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JoinJob, RanksGatherBroadcastAndLeave) {
  test_job job(4);
  const auto ranks = job.join_all();
  on_all(ranks, [](control_plane& p) {
    EXPECT_EQ(p.members().size(), 4U);
    EXPECT_EQ(p.members()[3].process, ::getpid());
    EXPECT_EQ(p.members()[1].host_identity, p.members()[0].host_identity);
    EXPECT_EQ(p.clock_offset_ns(), 0); // one host
    EXPECT_THAT(p.all_gather("names", "rank " + std::to_string(p.rank()), 10s),
                ElementsAre("rank 0", "rank 1", "rank 2", "rank 3"));
    EXPECT_EQ(p.broadcast("plan", p.rank() == 0 ? "two stages" : "", 10s), "two stages");
    p.leave(10s);
    EXPECT_FALSE(p.failure());
  });
  EXPECT_THAT(job.log.all(), ElementsAre());
}

TEST(JoinJob, LargeBlobsPassWhileOthersTalk) {
  test_job job(3);
  auto options = job.options();
  options.silence = 20s; // so much to encrypt takes its time under sanitizers
  const auto ranks = job.join_all(options);
  on_all(ranks, [](control_plane& p) {
    const auto all = p.all_gather("weights", std::string(std::size_t{8} << 20, static_cast<char>('a' + p.rank())), 60s);
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(all[static_cast<std::size_t>(r)].size(), std::size_t{8} << 20);
      EXPECT_EQ(all[static_cast<std::size_t>(r)].back(), 'a' + r);
    }
    p.leave(10s);
  });
  EXPECT_THAT(error_of([&] { ranks[1]->send(0, "t", std::string((std::size_t{64} << 20) + 1, 'x')); }),
              HasSubstr("at most 67108864"));
}

TEST(JoinJob, MessagesBetweenAnyTwoRanksKeepTheirOrder) {
  constexpr int size = 3;
  constexpr int count = 300;
  test_job job(size);
  const auto ranks = job.join_all();
  std::atomic<int> came{0};
  std::promise<void> all_came;
  std::vector<std::vector<int>> next(size, std::vector<int>(size, 0));
  for (int to = 0; to < size; ++to)
    ranks[static_cast<std::size_t>(to)]->on_message("count", [&, to](int from, std::string_view text) {
      auto& expected = next[static_cast<std::size_t>(to)][static_cast<std::size_t>(from)];
      EXPECT_EQ(text, std::to_string(expected++));
      if (++came == size * size * count) all_came.set_value();
    });
  on_all(ranks, [](control_plane& p) {
    for (int i = 0; i < count; ++i)
      for (int to = 0; to < size; ++to)
        p.send(to, "count", std::to_string(i));
  });
  ASSERT_EQ(all_came.get_future().wait_for(20s), std::future_status::ready);
  on_all(ranks, [](control_plane& p) { p.leave(10s); });
}

TEST(JoinJob, ARankMayComeBeforeRankZeroListens) {
  test_job job(2);
  auto zero = job.of(0);
  ::close(std::exchange(zero.listening_socket, -1)); // nobody listens; the port is free again
  auto early = std::async(std::launch::async, [&] { return join_job(job.of(1), job.options()); });
  EXPECT_EQ(early.wait_for(200ms), std::future_status::timeout);
  const auto first = join_job(zero, job.options());
  const auto second = early.get();
  auto other = std::async(std::launch::async, [&] { second->leave(10s); });
  first->leave(10s);
  other.get();
}

// What people write for one and the same place, each rank as it likes.
TEST(JoinJob, AllSpellingsOfThisHostAreOnePlace) {
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  std::vector<std::string> spellings{"127.0.0.1", "localhost", "::1", "127.0.1.1", "LocalHost."};
  if (::gethostbyname(name.data()) != nullptr) spellings.emplace_back(name.data()); // not known in every container
  for (const auto& of_zero : spellings) {
    for (const auto& of_one : spellings) {
      test_job job(2);
      auto zero = job.of(0);
      auto one = job.of(1);
      ::close(std::exchange(zero.listening_socket, -1));
      zero.master = of_zero;
      one.master = of_one;
      auto other = std::async(std::launch::async, [&] { return join_job(one, job.options()); });
      const auto first = join_job(zero, job.options());
      const auto second = other.get();
      EXPECT_THAT(first->ways_out(), ElementsAre()) << of_zero << ", " << of_one;
      EXPECT_THAT(second->ways_out(), ElementsAre()) << of_zero << ", " << of_one;
    }
  }
}

TEST(JoinJob, ABusyHostMayTakeLongerThanAnAttempt) {
  test_job job(3);
  auto options = job.options();
  options.join_deadline = 60s;
  std::vector<std::future<std::unique_ptr<control_plane>>> early;
  for (const int r : {1, 2})
    early.push_back(std::async(std::launch::async, [&, where = job.of(r)] { return join_job(where, options); }));
  // The launcher's socket takes their connections though nobody is there yet to answer, for longer than a try to
  // connect to a dead host lasts.
  EXPECT_EQ(early[1].wait_for(6s), std::future_status::timeout);
  const auto first = join_job(job.of(0), options);
  for (auto& e : early)
    e.get();
  EXPECT_THAT(job.log.all(), ElementsAre()) << "nobody has given up and come again";
}

TEST(JoinJob, ANameThatNobodyKnowsIsSaidAtOnceByEveryRank) {
  for (const int rank : {0, 1}) {
    launch where;
    where.rank = rank;
    where.size = 2;
    where.master = "no-such-host.invalid";
    where.port = 20'000;
    EXPECT_THAT(error_of([&] { join_job(where, test_job(2).options()); }),
                HasSubstr("rank 0's host 'no-such-host.invalid' is not known"));
  }
}

TEST(JoinJob, AnAddressOfAnotherHostIsNoneToListenOn) {
  launch where;
  where.size = 2;
  where.master = "203.0.113.9";
  where.port = 20'000;
  EXPECT_EQ(error_of([&] { join_job(where, test_job(2).options()); }),
            "[control] rank 0 cannot listen on 203.0.113.9:20000: no device of this host has that address");
}

TEST(JoinJob, NobodyThereIsSaidAtTheDeadline) {
  test_job job(2);
  ::close(job.of(0).listening_socket);
  auto options = job.options();
  options.join_deadline = 200ms;
  EXPECT_THAT(error_of([&] { join_job(job.of(1), options); }),
              AllOf(HasSubstr("rank 1 has not reached rank 0 at 127.0.0.1:"), HasSubstr("within 200 ms"),
                    HasSubstr("Connection refused")));
}

TEST(JoinJob, ARankThatNeverComesIsNamedToAll) {
  test_job job(4);
  auto options = job.options();
  options.join_deadline = 2s;
  std::vector<std::future<std::string>> said;
  for (const int r : {0, 1, 3})
    said.push_back(std::async(std::launch::async,
                              [&options, where = job.of(r)] { return error_of([&] { join_job(where, options); }); }));
  for (auto& s : said)
    EXPECT_EQ(s.get(), "rank 2 never came: 3 of 4 ranks were there after 2 s");
}

struct difference {
  const char* about;
  void (*make)(int rank, launch& where, join_options& own);
  const char* says;
};

class DifferentRanks : public ::testing::TestWithParam<difference> {};

TEST_P(DifferentRanks, AreNamedToAll) {
  test_job job(3);
  EXPECT_THAT(job.errors_of_joining(GetParam().make), Each(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    JoinJob, DifferentRanks,
    ::testing::Values(difference{"Facts",
                                 [](int rank, launch&, join_options& own) {
                                   if (rank == 2) own.facts[1].second = "--batch 16";
                                 },
                                 "'options' differs: rank 0 has '--batch 8', rank 2 has '--batch 16'"},
                      difference{"NumbersOfRanks",
                                 [](int rank, launch& where, join_options&) {
                                   if (rank == 1) where.size = 2;
                                 },
                                 "'number of ranks' differs: rank 0 has 3, rank 1 has 2"}),
    [](const auto& each) { return each.param.about; });

TEST(JoinJob, AnotherSecretIsSaidAtOnceOnBothSides) {
  test_job job(2);
  auto options = job.options();
  options.join_deadline = 3s;
  auto zero =
      std::async(std::launch::async, [&, where = job.of(0)] { return error_of([&] { join_job(where, options); }); });
  auto wrong = options;
  wrong.secret = secret_from_text("some other secret");
  EXPECT_THAT(error_of([&] { join_job(job.of(1), wrong); }),
              HasSubstr("the job's secret differs from that of rank 0 at 127.0.0.1:"));
  EXPECT_TRUE(job.log.wait_for("the job's secret differs"));
  EXPECT_EQ(zero.wait_for(0s), std::future_status::timeout); // the right rank 1 may still come
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("rank 1 never came"), HasSubstr("the job's secret differs")));
}

TEST(JoinJob, TwoRanksWithOneIdAndRanksThatThereAreNotAreRefused) {
  test_job job(2);
  const auto ranks = job.join_all();
  EXPECT_THAT(error_of([&] { join_job(job.of(1), job.options()); }),
              AllOf(HasSubstr("refuses this process: rank 1 is taken by process " + std::to_string(::getpid())),
                    HasSubstr("two ranks with one id")));
  auto beyond = job.of(1);
  beyond.rank = 5;
  beyond.size = 6;
  EXPECT_THAT(error_of([&] { join_job(beyond, job.options()); }), HasSubstr("there is no rank 5 in a job of 2 ranks"));
  EXPECT_TRUE(job.log.wait_for("there is no rank 5"));
  on_all(ranks, [](control_plane& p) { p.leave(10s); });
}

TEST(JoinJob, APortInUseIsOneClearLine) {
  test_job job(2);
  launch second;
  second.size = 2;
  second.port = job.port();
  EXPECT_EQ(error_of([&] { join_job(second, job.options()); }),
            "[control] rank 0 cannot listen on 127.0.0.1:" + std::to_string(job.port()) + ": Address already in use");
  launch none = job.of(1);
  none.port = 0;
  EXPECT_THROW(join_job(none, job.options()), usage_error);
  launch inherited = job.of(1);
  inherited.rank = 0;
  inherited.listening_socket = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_THAT(error_of([&] { join_job(inherited, job.options()); }), HasSubstr("is no TCP socket that listens"));
  ::close(inherited.listening_socket);
}

TEST(JoinJob, AJobOfOneNeedsNoNetwork) {
  const auto alone = join_job(launch{}, {});
  EXPECT_THAT(alone->all_gather("all", "me", 1s), ElementsAre("me"));
  alone->leave(1s);
}

// Addresses on which this process listens, as /proc/net/tcp writes them.
std::vector<std::string> listening_on(int port) {
  char hexadecimal[5];
  std::snprintf(hexadecimal, sizeof hexadecimal, "%04X", static_cast<unsigned>(port));
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string number, own, other, state;
      fields >> number >> own >> other >> state;
      if (state == "0A" && own.ends_with(std::string(":") + hexadecimal)) found.push_back(own);
    }
  }
  return found;
}

TEST(JoinJob, OnlyTheGivenAddressListens) {
  test_job job(2);
  auto zero = job.of(0);
  ::close(std::exchange(zero.listening_socket, -1)); // it listens by itself
  auto one = std::async(std::launch::async, [&] { return join_job(job.of(1), job.options()); });
  const auto first = join_job(zero, job.options());
  const auto second = one.get();
  EXPECT_THAT(listening_on(job.port()), ElementsAre(HasSubstr("0100007F:")));
}

TEST(JoinJob, ChildrenInheritNoSocket) {
  test_job job(2);
  const auto ranks = job.join_all();
  int sockets = 0;
  for (int fd = 0; fd < 256; ++fd) {
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) continue;
    if (own.ss_family != AF_INET && own.ss_family != AF_INET6) continue;
    ++sockets;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << "descriptor " << fd;
  }
  EXPECT_GE(sockets, 3); // the door and both ends of the line
}

} // namespace
} // namespace penstock::transport
