// A run that is killed outright goes on from its last complete checkpoint to the same bits.
#include "tests/support/process.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <sstream>

namespace penstock::test {
namespace {

namespace fs = std::filesystem;

nlohmann::json summary_in(const fs::path& metrics) {
  std::istringstream lines(read_text(metrics));
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);)
    last = nlohmann::json::parse(line);
  return last;
}

class KillAndResume : public ::testing::TestWithParam<std::vector<std::string>> {
protected:
  std::vector<std::string> command(const char* name, std::vector<std::string> more) const {
    std::vector<std::string> c{PROGRAMS "/lenet",
                               "--data",
                               "synthetic",
                               "--synthetic-samples",
                               "2048",
                               "--batch",
                               "16",
                               "--epochs",
                               "2",
                               "--threads",
                               "1",
                               "--checkpoint",
                               (folder_ / name).string(),
                               "--checkpoint-every",
                               "20",
                               "--metrics",
                               (folder_ / (std::string(name) + ".jsonl")).string()};
    c.insert(c.end(), GetParam().begin(), GetParam().end());
    c.insert(c.end(), more.begin(), more.end());
    return c;
  }
  temporary_folder folder_;
};

TEST_P(KillAndResume, LeavesTheBitsOfTheUninterruptedRun) {
  using namespace std::chrono_literals;
  const auto whole = run_process(command("whole", {}), 120s);
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  {
    process doomed(command("parts", {}));
    ASSERT_TRUE(doomed.wait_until([&] { return fs::exists(folder_ / "parts" / "step-0000000060"); }, 60s));
    doomed.send(SIGKILL);
    doomed.finish(60s);
  }
  const auto resumed = run_process(command("parts", {"--resume"}), 120s);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  const auto a = summary_in(folder_ / "whole.jsonl");
  const auto b = summary_in(folder_ / "parts.jsonl");
  EXPECT_EQ(a["weights_sha256"], b["weights_sha256"]);
  EXPECT_EQ(a["state_sha256"], b["state_sha256"]);
  EXPECT_EQ(b["steps"], 256);
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, KillAndResume,
    ::testing::Values(std::vector<std::string>{"--stages", "2"}, std::vector<std::string>{"--replicas", "2,1"},
                      std::vector<std::string>{"--stages", "3", "--schedule", "1f1b", "--microbatches", "4"}),
    [](const auto& p) { return "Setting" + std::to_string(p.index); });

} // namespace
} // namespace penstock::test
