// Strangers of all kinds come to the port of a running job: they are refused and logged, and the job goes on unharmed.
#include "kernels/check.hpp"
#include "tests/transport/control/stranger.hpp"
#include "tests/transport/control/test_job.hpp"
#include "transport/control/connect.hpp"
#include "transport/control/listener.hpp"
#include "transport/control/log_limiter.hpp"
#include "transport/control/wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/write.hpp>
#include <future>

namespace penstock::transport {
namespace {

using test::error_of;
using test::false_rank_0;
using test::job_password;
using test::on_all;
using test::stranger;
using test::test_job;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// A job of two ranks between which a ball goes to and fro all the time.
class AttackTest : public ::testing::Test {
protected:
  AttackTest() {
    for (const auto& r : ranks) {
      auto* self = r.get();
      self->on_message("ball", [this, self](int from, std::string_view text) {
        ++passes;
        if (playing) self->send(from, "ball", text);
      });
    }
    ranks[0]->send(1, "ball", "round");
  }

  /// The ball still moves: it passes a few hundred times more. Then the job ends in good order.
  ~AttackTest() override {
    const long before = passes;
    std::promise<void> far;
    ranks[0]->on_message("count", [&](int, std::string_view) {
      if (passes < before + 200)
        ranks[1]->send(0, "count", "");
      else
        far.set_value();
    });
    ranks[1]->send(0, "count", "");
    EXPECT_EQ(far.get_future().wait_for(20s), std::future_status::ready);
    playing = false;
    on_all(ranks, [](control_plane& p) {
      EXPECT_NO_THROW(p.leave(10s));
      EXPECT_FALSE(p.failure());
    });
  }

  test_job job{2};
  test::planes ranks = job.join_all();
  std::atomic<long> passes{0};
  std::atomic<bool> playing{true};
};

TEST_F(AttackTest, GarbageHttpAndOtherProtocolsAreTurnedAway) {
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string(4096, '\0'),
        std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string(100'000, '\xff'), std::string("\x16\x03\x01\xff\xff", 5),
        encode(frame{.kind = frame_kind::hello, .payload = encode(hello{.rank = 1, .size = 2})})}) {
    stranger visitor(job.port());
    visitor.say(words);
    EXPECT_TRUE(visitor.is_closed_within(5s)) << words.substr(0, 20);
  }
  EXPECT_TRUE(job.log.wait_for("does not speak TLS"));
  EXPECT_THAT(job.log.all(), Each(HasSubstr("[control] turned away 127.0.0.1:")));
}

TEST_F(AttackTest, OneThatSaysNothingIsClosedInTime) {
  stranger silent(job.port());
  stranger slow(job.port());
  slow.say(std::string("\x16\x03\x01\x02", 4)); // the beginning of a client's hello
  EXPECT_TRUE(silent.is_closed_within(job.options().visitor_patience + 3s));
  EXPECT_TRUE(slow.is_closed_within(3s));
  EXPECT_TRUE(job.log.wait_for("it has not said who it is within 2 s"));
}

TEST_F(AttackTest, TlsWithoutTheSecretIsTurnedAway) {
  for (const auto version : {TLS1_2_VERSION, TLS1_3_VERSION})
    EXPECT_NE(test::tls_handshake(job.port(), version, {}), "");
  EXPECT_NE(test::tls_handshake(job.port(), TLS1_3_VERSION, secret_from_text("quite another secret")), "");
  EXPECT_EQ(test::tls_handshake(job.port(), TLS1_3_VERSION, secret_from_text(job_password)), "");
  EXPECT_TRUE(job.log.wait_for("no TLS 1.3 with the job's secret"));
  EXPECT_TRUE(job.log.wait_for("the job's secret differs"));
}

TEST_F(AttackTest, OneThatHangsUpInTheMiddleIsForgotten) {
  for (int i = 0; i < 200; ++i) {
    stranger visitor(job.port());
    if (i % 2 == 0) visitor.say(std::string("\x16\x03\x01\x02", 4));
    visitor.reset();
  }
  EXPECT_TRUE(job.log.wait_for("turned away"));
  // Also of those that had gone before they were accepted.
  EXPECT_THAT(job.log.all(), Each(HasSubstr("[control] turned away 127.0.0.1:")));
}

TEST_F(AttackTest, KnowingTheSecretIsNotEnough) {
  const auto answer_to = [&](const std::string& bytes) {
    return test::answer_to(job.port(), secret_from_text(job_password), bytes);
  };
  std::string head;
  put(head, std::uint32_t{0xFFFFFFFF});
  put(head, static_cast<std::uint8_t>(frame_kind::hello));
  EXPECT_EQ(answer_to(head), "");                                     // too large
  EXPECT_EQ(answer_to(encode(frame{.kind = frame_kind::leave})), ""); // no hello
  EXPECT_EQ(answer_to(encode(frame{.kind = frame_kind::hello, .payload = "\x01"})), "");
  EXPECT_EQ(answer_to(std::string(1000, 'x')), "");
  const auto whole = encode(frame{.kind = frame_kind::hello, .payload = encode(hello{.rank = 1, .size = 2})});
  EXPECT_EQ(answer_to(whole.substr(0, whole.size() / 2)), ""); // half a hello, then nothing
  EXPECT_THAT(answer_to(whole), HasSubstr("rank 1 is taken"));
  EXPECT_THAT(answer_to(encode(frame{.kind = frame_kind::hello, .payload = encode(hello{.protocol = 7})})),
              HasSubstr("it speaks control protocol 7"));
  EXPECT_TRUE(job.log.wait_for("no hello"));
}

TEST_F(AttackTest, AFloodLeavesFewTraces) {
  std::vector<std::unique_ptr<stranger>> crowd;
  for (int i = 0; i < 400; ++i)
    crowd.push_back(std::make_unique<stranger>(job.port()));
  EXPECT_TRUE(crowd.front()->is_closed_within(5s)); // the oldest made room
  EXPECT_TRUE(job.log.wait_for("too many connections at once"));
  EXPECT_LE(job.log.all().size(), static_cast<std::size_t>(2 * log_limiter::most_lines));
}

TEST(Attack, ALateRankGetsThroughAFlood) {
  test_job job(2);
  auto zero = std::async(std::launch::async, [&, where = job.of(0)] { return join_job(where, job.options()); });
  std::atomic<bool> flooding{true};
  std::vector<std::unique_ptr<stranger>> crowd;
  for (int i = 0; i < 200; ++i)
    crowd.push_back(std::make_unique<stranger>(job.port()));
  auto flood = std::async(std::launch::async, [&] {
    for (std::size_t next = 0; flooding; next = (next + 1) % crowd.size())
      crowd[next] = std::make_unique<stranger>(job.port());
  });
  const auto one = join_job(job.of(1), job.options());
  const auto first = zero.get();
  flooding = false;
  flood.get();
  auto other = std::async(std::launch::async, [&] { one->leave(10s); });
  first->leave(10s);
  other.get();
}

TEST(Attack, AnAdmittedRankThatSpeaksGarbageEndsTheJobByName) {
  test_job job(3);
  std::vector<std::future<std::unique_ptr<control_plane>>> joining;
  for (const int r : {0, 1})
    joining.push_back(
        std::async(std::launch::async, [&, where = job.of(r)] { return join_job(where, job.options()); }));
  boost::asio::io_context network;
  const auto work = boost::asio::make_work_guard(network);
  auto tls = make_tls_context(secret_from_text(job_password), tls_side::client);
  hello own{.rank = 2, .size = 3, .who = {.host = "n2", .process = 7}, .facts = job.options().facts};
  const auto line = connect_to_rank_0(network, tls, job.of(1), own, 10s);
  const auto zero = joining[0].get();
  const auto one = joining[1].get();
  boost::asio::write(line.line->stream(), boost::asio::buffer(std::string(100, '\xee')));
  const auto cause = test::failure_at(*one);
  EXPECT_THAT(cause.text, HasSubstr("rank 2 (host n2, process 7) sent what is no part of the control protocol"));
  EXPECT_EQ(cause.rank, 2);
  EXPECT_EQ(test::failure_at(*zero).text, cause.text);
  EXPECT_TRUE(job.log.wait_for("[control] rank 2 at 127.0.0.1:"));
}

TEST(Attack, AFalseRankZeroGetsNothing) {
  for (const auto kind : {false_rank_0::certificate, false_rank_0::http, false_rank_0::other_secret}) {
    false_rank_0 server(kind);
    test_job job(2);
    auto where = job.of(1);
    where.port = server.port();
    EXPECT_THAT(error_of([&] { join_job(where, job.options()); }),
                ::testing::AnyOf(HasSubstr("is not rank 0 of this job"), HasSubstr("the job's secret differs")))
        << kind;
    EXPECT_FALSE(server.was_trusted()) << kind;
  }
  false_rank_0 silent(false_rank_0::silent);
  test_job job(2);
  auto where = job.of(1);
  where.port = silent.port();
  auto options = job.options();
  options.join_deadline = 300ms;
  EXPECT_THAT(error_of([&] { join_job(where, options); }), HasSubstr("has not reached rank 0"));
}

} // namespace
} // namespace penstock::transport
