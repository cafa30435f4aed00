// Ranks that are killed, stopped, silent or that fail: all others learn the same first cause in time.
#include "kernels/check.hpp"
#include "tests/support/process.hpp"
#include "tests/transport/control/test_job.hpp"
#include "transport/control/connect.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <csignal>
#include <future>
#include <unistd.h>

namespace penstock::transport {
namespace {

using test::error_of;
using test::failure_at;
using test::job_password;
using test::on_all;
using test::test_job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using clock = std::chrono::steady_clock;
using penstock::test::process;

constexpr auto silence = 1000ms;

std::unique_ptr<process> start_rank(int rank, int size, int port, const std::string& act) {
  return std::make_unique<process>(std::vector<std::string>{RANK_PROGRAM, std::to_string(rank), std::to_string(size),
                                                            "127.0.0.1", std::to_string(port),
                                                            std::to_string(silence.count()), act});
}

// Nothing that a test sees says that what a rank does has been heard of; it is, with the next pulse.
void let_pulses_pass(process& rank) {
  rank.wait_until([] { return false; }, silence / 2);
}

/// Ranks 0 and 1 of three are threads of the test, rank 2 is a process.
struct mixed_job {
  explicit mixed_job(const std::string& act) {
    auto options = job.options();
    options.facts.clear();
    options.silence = silence;
    child = start_rank(2, 3, job.port(), act);
    auto first = std::async(std::launch::async, [&, where = job.of(0)] { return join_job(where, options); });
    one = join_job(job.of(1), options);
    zero = first.get();
    EXPECT_TRUE(child->wait_for_output("joined", 10s));
  }
  std::string child_name() const {
    return "rank 2 (host " + zero->members()[2].host + ", process " + std::to_string(child->id()) + ")";
  }
  test_job job{3};
  std::unique_ptr<process> child;
  std::unique_ptr<control_plane> zero;
  std::unique_ptr<control_plane> one;
};

TEST(Loss, AKilledRankIsNamedAtOnceWithWhatItWasDoing) {
  mixed_job job("wait");
  let_pulses_pass(*job.child);
  const auto killed = clock::now();
  job.child->send(SIGKILL);
  const auto cause = failure_at(*job.one);
  EXPECT_LT(clock::now() - killed, 5s);
  EXPECT_EQ(cause.text, job.child_name() + " ended without a word; it was training minibatch 7");
  EXPECT_EQ(cause.rank, 2);
  EXPECT_TRUE(cause.lost);
  EXPECT_EQ(error_of([&] { job.zero->leave(10s); }), cause.text);
}

TEST(Loss, AStoppedRankIsNamedAfterTheSilenceAndLearnsItWhenItGoesOn) {
  mixed_job job("wait");
  let_pulses_pass(*job.child);
  job.child->send(SIGSTOP);
  const auto cause = failure_at(*job.one);
  EXPECT_EQ(cause.text, job.child_name() + " has said nothing for 1 s; it was training minibatch 7");
  EXPECT_EQ(failure_at(*job.zero).text, cause.text);
  job.child->send(SIGCONT);
  const auto result = job.child->finish(10s);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr(cause.text));
}

TEST(Loss, ARankThatFailsAndExitsAtOnceIsHeardByAll) {
  mixed_job job("fail");
  const auto cause = failure_at(*job.one);
  EXPECT_EQ(cause.text, "rank 2 (host " + job.zero->members()[2].host + "): the disk is full");
  EXPECT_FALSE(cause.lost);
  EXPECT_EQ(failure_at(*job.zero).text, cause.text);
  EXPECT_EQ(job.child->finish(10s).exit_code, 1);
}

TEST(Loss, ProcessesLeaveInGoodOrder) {
  mixed_job job("leave");
  auto zero = std::async(std::launch::async, [&] { job.zero->leave(10s); });
  job.one->leave(10s);
  zero.get();
  job.zero.reset();
  job.one.reset();
  const auto result = job.child->finish(10s);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("left"));
}

/// Rank 0 is a process, ranks 1 and 2 are threads of the test.
struct led_job {
  led_job() {
    const auto where = job.of(0);
    ::close(where.listening_socket); // the process listens there by itself
    child = start_rank(0, 3, job.port(), "wait");
    auto options = job.options();
    options.facts.clear();
    options.silence = 60s; // rank 0's is what counts
    auto first = std::async(std::launch::async, [&, w = job.of(1)] { return join_job(w, options); });
    two = join_job(job.of(2), options);
    one = first.get();
    EXPECT_TRUE(child->wait_for_output("joined", 10s));
    let_pulses_pass(*child);
  }
  std::string child_name() const {
    return "rank 0 (host " + one->members()[0].host + ", process " + std::to_string(child->id()) + ")";
  }
  /// Ranks 1 and 2 give this for rank 0's end; returns the whole line.
  std::string expect_all_learn(const std::string& what) {
    const auto wanted = child_name() + what;
    EXPECT_EQ(failure_at(*one).text, wanted);
    EXPECT_EQ(failure_at(*two).text, wanted);
    return wanted;
  }
  test_job job{3};
  std::unique_ptr<process> child;
  std::unique_ptr<control_plane> one;
  std::unique_ptr<control_plane> two;
};

TEST(Loss, AKilledRankZeroIsNamedByTheOthers) {
  led_job job;
  job.child->send(SIGKILL);
  job.expect_all_learn(" ended without a word; it was training minibatch 7");
}

TEST(Loss, AStoppedRankZeroIsNamedAndLearnsItWhenItGoesOn) {
  led_job job;
  job.child->send(SIGSTOP);
  const auto cause = job.expect_all_learn(" has said nothing for 1 s; it was training minibatch 7");
  job.one.reset();
  job.two.reset();
  job.child->send(SIGCONT);
  EXPECT_THAT(job.child->finish(10s).output, HasSubstr(cause));
}

TEST(Loss, ARankThatIsConnectedButSaysNothingIsLost) {
  test_job job(2);
  auto options = job.options();
  options.silence = silence;
  auto zero = std::async(std::launch::async, [&, where = job.of(0)] { return join_job(where, options); });
  boost::asio::io_context network;
  const auto work = boost::asio::make_work_guard(network);
  auto tls = make_tls_context(secret_from_text(job_password), tls_side::client);
  const hello mute{.rank = 1, .size = 2, .who = {.host = "n1", .process = 7}, .facts = options.facts};
  const auto line = connect_to_rank_0(network, tls, job.of(1), mute, 10s);
  EXPECT_EQ(line.granted.silence, silence);
  const auto first = zero.get();
  EXPECT_EQ(failure_at(*first).text, "rank 1 (host n1, process 7) has said nothing for 1 s");
}

TEST(Loss, ARankThatIsBusyIsNotLost) {
  test_job job(2);
  auto options = job.options();
  options.silence = silence;
  const auto ranks = job.join_all(options);
  std::promise<void> failed;
  ranks[0]->on_failure([&](const job_failure&) { failed.set_value(); });
  // Nobody calls anything for three times the silence.
  EXPECT_EQ(failed.get_future().wait_for(3 * silence), std::future_status::timeout);
  on_all(ranks, [](control_plane& p) { p.leave(10s); });
}

TEST(Loss, ASuspicionBlamesThePeer) {
  test_job job(3);
  const auto ranks = job.join_all();
  ranks[2]->doing("receiving gradients");
  ranks[0]->suspect(2, "endpoint timeout");
  const auto cause = failure_at(*ranks[1]);
  EXPECT_THAT(cause.text, AllOf(HasSubstr("the data connection from rank 0 to rank 2 ("),
                                HasSubstr(") broke: endpoint timeout; rank 2 was receiving gradients")));
  EXPECT_EQ(cause.rank, 2);
}

TEST(Loss, AllRanksWaitingLearnTheSameCause) {
  test_job job(4);
  auto ranks = job.join_all();
  ranks[3]->fail("no such file\nat all");
  const auto host = ranks[0]->members()[3].host;
  const auto cause = "rank 3 (host " + host + "): no such file at all";
  on_all(ranks, [&](control_plane& p) {
    if (p.rank() == 3) // its part would complete the gathering
      EXPECT_EQ(failure_at(p).text, cause);
    else
      EXPECT_EQ(error_of([&] { p.all_gather("never complete", "", 10s); }), cause);
  });
}

TEST(Loss, APlaneIsDestroyedInTimeAndCallsNobodyAfter) {
  for (int round = 0; round < 20; ++round) {
    test_job job(3);
    auto ranks = job.join_all();
    auto counter = std::make_shared<int>(0);
    ranks[1]->on_message("noise", [counter](int, std::string_view) { ++*counter; });
    for (int i = 0; i < 100; ++i)
      ranks[static_cast<std::size_t>(i % 3)]->send(1, "noise", "x");
    const auto begun = clock::now();
    ranks[static_cast<std::size_t>(round % 3)].reset();
    EXPECT_LT(clock::now() - begun, 5s);
    if (round % 3 == 1) {
      EXPECT_EQ(counter.use_count(), 1); // the handler is gone
    } else {
      EXPECT_NE(error_of([&] { ranks[1]->leave(10s); }), "no error");
    }
  }
}

} // namespace
} // namespace penstock::transport
