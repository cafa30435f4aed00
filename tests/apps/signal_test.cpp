// Signals: an orderly end with its own exit code, and a checkpoint on request.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>

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
  EXPECT_EQ(result.errors, "");
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

// Stopped for good, the run cannot end in order: the second signal must not wait for that.
TEST(EndingSignals, TheSecondEndsAtOnce) {
  const temporary_folder folder;
  process app(tiny_lenet({"--data", "synthetic", "--synthetic-samples", "2000", "--batch", "2000", "--steps", "1000000",
                          "--reference-kernels", "--metrics", "m.jsonl"}),
              {.folder = folder.path()});
  ASSERT_TRUE(app.wait_for_output("schedule pipedream", patience)); // the handlers are in place, the first step is long
  app.send(SIGINT);
  app.send(SIGINT);
  const auto result = app.finish(patience);
  EXPECT_EQ(result.exit_code, 130);
}

} // namespace
} // namespace penstock::test
