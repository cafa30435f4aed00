// Requests to a running process: who knows the secret is heard and answered, everybody else is turned away.
#include "kernels/check.hpp"
#include "tests/transport/control/stranger.hpp"
#include "tests/transport/control/test_job.hpp"
#include "transport/control/frame.hpp"
#include "transport/control/hello.hpp"
#include "transport/control/request_port.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace penstock::transport {
namespace {

using test::error_of;
using test::false_rank_0;
using test::job_password;
using test::log_lines;
using test::stranger;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A port that keeps what is asked and the way to answer it.
class RequestTest : public ::testing::Test {
protected:
  struct asked {
    request what;
    request_port::responder respond;
  };

  void open(request_port_options options) {
    options.secret = secret_from_text(job_password);
    options.log = log.writer();
    port = std::make_unique<request_port>(launch{}, std::move(options),
                                          [this](const request& what, request_port::responder respond) {
                                            if (what.topic == "nonsense") throw usage_error("nothing of the kind");
                                            came.set_value({what, std::move(respond)});
                                          });
    address.port = std::stoi(port->address().substr(port->address().rfind(':') + 1));
  }
  void open() {
    open({.secret = {}, .patience = 2s, .pulse = 20ms, .news = [] { return "step 3 of 9"; }, .log = {}});
  }

  asked wait_for_request() {
    auto next = came.get_future();
    if (next.wait_for(20s) != std::future_status::ready) throw std::runtime_error("nothing was asked");
    auto found = next.get();
    came = {};
    return found;
  }

  std::future<request_answer> ask_later(const request& what, asking_options options = {}) const {
    return std::async(std::launch::async, [=, this] { return ask_now(what, options); });
  }
  request_answer ask_now(const request& what, const asking_options& options = {}) const {
    return ask(address, secret_from_text(job_password), what, options);
  }
  /// A wish is answered as if nothing had happened.
  void expect_to_work() {
    auto answer = ask_later({"replan", "body"});
    wait_for_request().respond({true, "done"});
    EXPECT_TRUE(answer.get().is_granted);
  }

  log_lines log;
  std::promise<asked> came;
  std::unique_ptr<request_port> port;
  launch address;
};

TEST_F(RequestTest, AreHeardWholeAndAnsweredInALine) {
  open();
  const std::string large(3'000'000, 'x');
  auto granted = ask_later({"replan", large});
  auto first = wait_for_request();
  EXPECT_EQ(first.what.topic, "replan");
  EXPECT_EQ(first.what.body, large);
  first.respond({true, "took over\nafter step 4"});
  first.respond({false, "a second answer counts for nothing"});
  const auto answer = granted.get();
  EXPECT_TRUE(answer.is_granted);
  EXPECT_EQ(answer.line, "took over after step 4");
  auto refused = ask_later({"replan", ""});
  wait_for_request().respond({false, "does not fit"});
  EXPECT_FALSE(refused.get().is_granted);
  const auto nonsense = ask_now({"nonsense", ""});
  EXPECT_FALSE(nonsense.is_granted);
  EXPECT_EQ(nonsense.line, "nothing of the kind");
}

TEST_F(RequestTest, WhoWaitsHearsHowFarTheRunIs) {
  open();
  std::promise<std::string> heard;
  std::atomic<bool> is_first{true};
  asking_options options;
  options.on_news = [&](const std::string& news) {
    if (is_first.exchange(false)) heard.set_value(news);
  };
  auto answer = ask_later({"replan", ""}, options);
  const auto request = wait_for_request();
  EXPECT_EQ(heard.get_future().get(), "step 3 of 9");
  request.respond({true, ""});
  EXPECT_TRUE(answer.get().is_granted);
}

TEST_F(RequestTest, ASecondOneIsRefusedWithALineWhileTheFirstWaits) {
  open();
  auto first = ask_later({"replan", "one"});
  const auto request = wait_for_request();
  const auto second = ask_now({"replan", "two"});
  EXPECT_FALSE(second.is_granted);
  EXPECT_THAT(second.line, AllOf(StartsWith("another request, of 127.0.0.1:"), HasSubstr("has no answer yet")));
  request.respond({true, "done"});
  EXPECT_TRUE(first.get().is_granted);
  expect_to_work();
}

TEST_F(RequestTest, OneStandsThoughWhoMadeItIsGone) {
  open();
  asking_options short_of_time;
  short_of_time.patience = 300ms;
  auto gone = ask_later({"replan", "one"}, short_of_time);
  const auto request = wait_for_request();
  EXPECT_THAT(error_of([&] { gone.get(); }), HasSubstr("has not answered within 300 ms; the request stands"));
  EXPECT_FALSE(ask_now({"replan", "two"}).is_granted);
  request.respond({true, "done"});
  expect_to_work();
}

TEST_F(RequestTest, AnotherSecretIsToldSoAndHearsNothing) {
  open();
  EXPECT_THAT(error_of([&] {
                ask(address, secret_from_text("quite another secret"), {"replan", ""}, {});
              }),
              HasSubstr("the job's secret differs from that of the control port at 127.0.0.1:"));
  EXPECT_TRUE(log.wait_for("the job's secret differs"));
  expect_to_work();
}

TEST_F(RequestTest, GarbageAndHalfOpenConnectionsAreTurnedAwayInTime) {
  open();
  stranger silent(address.port);
  for (const auto& words : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4096, '\0')}) {
    stranger visitor(address.port);
    visitor.say(words);
    EXPECT_TRUE(visitor.is_closed_within(5s));
  }
  {
    stranger rude(address.port);
    rude.reset();
  }
  const auto secret = secret_from_text(job_password);
  EXPECT_EQ(test::answer_to(address.port, secret, std::string(100, '\xff')), "");
  EXPECT_THAT(test::answer_to(address.port, secret,
                              encode(frame{.kind = frame_kind::hello, .payload = encode(hello{.rank = 1, .size = 2})})),
              HasSubstr("control port of a run"));
  expect_to_work(); // while one still says nothing
  EXPECT_TRUE(silent.is_closed_within(10s));
}

TEST_F(RequestTest, WhoKnowsTheSecretAndAsksNothingDoesNotHoldUpOthersForLong) {
  open({.secret = {}, .patience = 200ms, .pulse = 10ms, .news = {}, .log = {}});
  const auto hello = encode(frame{.kind = frame_kind::hello, .payload = std::string(request_greeting)});
  EXPECT_EQ(test::answer_to(address.port, secret_from_text(job_password), hello), "") << "the door closes";
  EXPECT_TRUE(log.wait_for("it has not said what it asks for within 200 ms"));
  expect_to_work();
}

TEST_F(RequestTest, TheEndOfTheRunIsAnAnswer) {
  open();
  auto answer = ask_later({"replan", ""});
  const auto request = wait_for_request();
  port.reset();
  const auto told = answer.get();
  EXPECT_FALSE(told.is_granted);
  EXPECT_EQ(told.line, "the run has ended");
  request.respond({true, "too late, and nobody is harmed"});
  EXPECT_THAT(error_of([&] { ask_now({"replan", ""}); }), HasSubstr("no run can be asked at 127.0.0.1:"));
}

TEST_F(RequestTest, AFalsePortGetsNothingAndASilentOneIsNotWaitedForWithoutEnd) {
  for (const auto kind : {false_rank_0::certificate, false_rank_0::http, false_rank_0::other_secret}) {
    false_rank_0 other(kind);
    address.port = other.port();
    EXPECT_NE(error_of([&] { ask_now({"replan", "secret matters"}); }), "no error");
    EXPECT_FALSE(other.was_trusted());
  }
  open({.secret = {}, .patience = 2s, .pulse = 1h, .news = {}, .log = {}});
  asking_options hasty;
  hasty.silence = 100ms;
  auto answer = ask_later({"replan", ""}, hasty);
  const auto request = wait_for_request();
  EXPECT_THAT(error_of([&] { answer.get(); }), HasSubstr("has said nothing for 100 ms"));
}

TEST_F(RequestTest, APortInUseIsNamed) {
  open();
  EXPECT_THAT(error_of([&] { request_port second(address, {.secret = secret_from_text(job_password)}, {}); }),
              HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(address.port)));
}

} // namespace
} // namespace penstock::transport
