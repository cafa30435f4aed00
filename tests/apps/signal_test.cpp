// Signals: an orderly end with its own exit code, and a checkpoint on request.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <csignal>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<std::string> endless(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"--stages",     "2",  "--epochs",  "20000",
                                     "--eval-every", "-1", "--metrics", "m.jsonl"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return tiny_lenet(arguments);
}

struct ending {
  int signal;
  int exit_code;
};

class EndingSignal : public testing::TestWithParam<ending> {};

TEST_P(EndingSignal, FinishesCheckpointsAndLeavesWithItsCode) {
  const temporary_folder folder;
  process app(endless({"--checkpoint", "ck", "--trace", "t.pftrace"}), {.folder = folder.path()});
  ASSERT_TRUE(app.wait_for_text(folder / "m.jsonl", R"("step":20,)", patience));
  app.send(GetParam().signal);
  const auto result = app.finish(patience);
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.errors;
  EXPECT_EQ(result.errors, std::string("lenet: ") + (GetParam().signal == SIGINT ? "SIGINT" : "SIGTERM") +
                               ": finishing the minibatches in flight, then a checkpoint; again to end now\n");
  EXPECT_THAT(result.output, HasSubstr("interrupted: "));
  const auto lines = lines_of(read_text(folder / "m.jsonl"));
  const auto summary = json::parse(lines.back());
  EXPECT_EQ(summary.at("end"), "interrupted");
  EXPECT_EQ(summary.at("steps"), json::parse(lines[lines.size() - 2]).at("step"));
  const auto check =
      run_process(program("penstock", {"trace", "check", "t.pftrace"}), patience, {.folder = folder.path()});
  EXPECT_EQ(check.exit_code, 0) << check.output << check.errors;
  EXPECT_FALSE(std::filesystem::is_empty(folder / "ck"));
}

INSTANTIATE_TEST_SUITE_P(Signals, EndingSignal, testing::Values(ending{SIGINT, 130}, ending{SIGTERM, 143}),
                         [](const auto& each) { return each.param.signal == SIGINT ? "SigInt" : "SigTerm"; });

TEST(CheckpointSignal, ChecksInAndGoesOn) {
  const temporary_folder folder;
  process app(endless({"--checkpoint", "ck"}), {.folder = folder.path()});
  ASSERT_TRUE(app.wait_for_text(folder / "m.jsonl", R"("step":10,)", patience));
  app.send(SIGUSR1);
  ASSERT_TRUE(app.wait_for_output("checkpoint of step", patience));
  const auto written = lines_of(read_text(folder / "m.jsonl")).size();
  EXPECT_TRUE(app.wait_until([&] { return lines_of(read_text(folder / "m.jsonl")).size() > written + 10; }, patience));
  app.send(SIGTERM);
  EXPECT_EQ(app.finish(patience).exit_code, 143);
}

// A broadcast reaches a process directly, by its group and by a launcher.
TEST(EndingSignals, OfOneBroadcastAreOne) {
  const temporary_folder folder;
  process app(endless({"--checkpoint", "ck"}), {.folder = folder.path()});
  ASSERT_TRUE(app.wait_for_text(folder / "m.jsonl", R"("step":20,)", patience));
  for (int i = 0; i < 3; ++i)
    app.send(SIGTERM);
  const auto result = app.finish(patience);
  EXPECT_EQ(result.exit_code, 143);
  EXPECT_EQ(result.error_lines().size(), 1) << result.errors;
  EXPECT_TRUE(exists(folder / "ck" / "latest"));
}

// One step of this takes minutes: only a second request can end it.
std::vector<std::string> one_long_step() {
  return tiny_lenet({"--synthetic-samples", "200000", "--batch", "200000", "--steps", "1", "--reference-kernels"});
}

TEST(EndingSignals, AnotherOneEndsAtOnce) {
  process app(one_long_step());
  ASSERT_TRUE(app.wait_for_output("schedule pipedream", patience));
  ASSERT_TRUE(app.wait_until(
      [&] {
        app.send(SIGINT);
        app.send(SIGTERM);
        return !app.running();
      },
      patience));
  EXPECT_THAT(app.finish(patience).exit_code, testing::AnyOf(130, 143)); // the system says which comes first
}

TEST(EndingSignals, TheSameOneAgainEndsAtOnceWhenAWhileHasPassed) {
  process app(one_long_step());
  ASSERT_TRUE(app.wait_for_output("schedule pipedream", patience));
  ASSERT_TRUE(app.wait_until(
      [&] {
        app.send(SIGINT);
        return !app.running();
      },
      patience));
  EXPECT_EQ(app.finish(patience).exit_code, 130);
}

TEST(EvaluationSignal, GivesAnEvaluationUpWithoutItsNumbers) {
  process app(tiny_lenet({"--eval-only", "--synthetic-samples", "8000000", "--eval-batch", "1"}));
  ASSERT_TRUE(app.wait_for_output("evaluation only", patience));
  app.send(SIGINT);
  const auto result = app.finish(patience);
  EXPECT_EQ(result.exit_code, 130) << result.errors;
  EXPECT_THAT(result.output, testing::Not(HasSubstr("top-1")));
  EXPECT_EQ(result.error_lines().size(), 1) << result.errors;
}

TEST(EvaluationSignal, KeepsWhatWasTrainedBeforeTheEvaluation) {
  const temporary_folder folder;
  const std::vector<std::string> run{"--synthetic-samples", "2000000", "--steps", "10", "--eval-batch", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), run.begin(), run.end());
    return tiny_lenet(more);
  };
  process app(with({"--metrics", "m.jsonl", "--checkpoint", "ck"}), {.folder = folder.path()});
  ASSERT_TRUE(app.wait_for_text(folder / "m.jsonl", R"("step":10,)", patience));
  app.send(SIGTERM);
  const auto result = app.finish(patience);
  EXPECT_EQ(result.exit_code, 143) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("checkpoint of step 10 "));
  EXPECT_THAT(result.output, testing::Not(HasSubstr("top-1")));
  const auto whole =
      run_process(with({"--metrics", "w.jsonl", "--eval-every", "-1"}), patience, {.folder = folder.path()});
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  const auto hash = [&](const char* file) {
    return json::parse(lines_of(read_text(folder / file)).back()).at("state_sha256").get<std::string>();
  };
  EXPECT_EQ(hash("m.jsonl"), hash("w.jsonl"));
}

// Something that accepts and says nothing, in the place of rank 0.
class mute_listener {
public:
  mute_listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* raw = reinterpret_cast<sockaddr*>(&address_);
    socklen_t size = sizeof address_;
    if (::bind(socket_, raw, size) != 0 || ::listen(socket_, 8) != 0 || ::getsockname(socket_, raw, &size) != 0)
      throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  ~mute_listener() { ::close(socket_); }
  mute_listener(const mute_listener&) = delete;
  mute_listener& operator=(const mute_listener&) = delete;
  std::string place() const { return "127.0.0.1:" + std::to_string(ntohs(address_.sin_port)); }
  bool has_caller() const { return ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC) >= 0; } // kept open

private:
  int socket_;
  sockaddr_in address_{};
};

TEST(StartSignal, EndsARankThatWaitsForTheOthers) {
  const mute_listener rank_0;
  process app(tiny_lenet({"--rank", "1", "--world-size", "2", "--master", rank_0.place(), "--join-timeout", "600"}),
              {.variables = {{"PENSTOCK_SECRET", std::string(64, 'a')}}});
  ASSERT_TRUE(app.wait_until([&] { return rank_0.has_caller(); }, patience)) << app.finish(patience).errors;
  app.send(SIGTERM);
  EXPECT_EQ(app.finish(patience).exit_code, 143);
}

} // namespace
} // namespace penstock::test
