// The apps in several processes, started by `penstock launch`: the same bits as one process over every transport, and an
// end for all when one of them ends.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <numeric>

namespace penstock::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json summary_of(const std::filesystem::path& metrics) {
  const auto lines = lines_of(read_text(metrics));
  return lines.empty() ? nlohmann::json{} : nlohmann::json::parse(lines.back());
}

std::vector<std::string> launched(int processes, std::vector<std::string> command) {
  auto all = program("penstock", {"launch", "-np", std::to_string(processes), "--"});
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

struct layout {
  std::string schedule;
  std::string replicas;
  int processes = 2;
  std::string transport;
  std::string microbatches = "";
};

class Processes : public ::testing::TestWithParam<layout> {
public:
  temporary_folder folder;
  std::vector<std::string> lenet(const std::string& metrics) const {
    auto all = tiny_lenet({"--schedule", GetParam().schedule, "--replicas", GetParam().replicas, "--epochs", "2",
                           "--batch", "8", "--momentum", "0.9", "--metrics", folder / metrics});
    if (!GetParam().microbatches.empty()) all.insert(all.end(), {"--microbatches", GetParam().microbatches});
    return all;
  }
};

TEST_P(Processes, HaveTheBitsOfOneProcess) {
  const auto one = run_process(lenet("one.jsonl"), patience);
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  auto command = lenet("many.jsonl");
  command.insert(command.end(), {"--transport", GetParam().transport, "--trace", folder / "t.pftrace"});
  const auto many = run_process(launched(GetParam().processes, command), patience);
  ASSERT_EQ(many.exit_code, 0) << many.errors << many.output;
  EXPECT_EQ(many.errors, "");
  const auto a = summary_of(folder / "one.jsonl");
  const auto b = summary_of(folder / "many.jsonl");
  for (const auto* what : {"weights_sha256", "state_sha256", "steps", "updates", "drains", "evaluation"})
    EXPECT_EQ(a.at(what), b.at(what)) << what;
  const auto checked = run_process(program("penstock", {"trace", "check", folder / "t.pftrace"}), patience);
  EXPECT_EQ(checked.exit_code, 0) << checked.output << checked.errors;
  EXPECT_EQ(folder.names().size(), 3U) << "the ranks' own traces are gone";
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Processes,
    ::testing::Values(layout{"pipedream", "1,1", 2, "shm"}, layout{"pipedream", "1,1,1", 3, "tcp"},
                      layout{"pipedream", "3,1", 4, "shm"}, layout{"pipedream", "2,1,2", 3, "auto"},
                      layout{"1f1b", "2,1", 3, "tcp", "4"}, layout{"gpipe", "1,1,1", 2, "shm", "3"},
                      layout{"data-parallel", "4", 4, "shm"}, layout{"data-parallel", "2", 2, "tcp"},
                      layout{"2bw", "2,1", 3, "shm", "4"}, layout{"pipedream-vertical-sync", "2,2", 4, "tcp"}),
    [](const auto& of) {
      auto name = of.param.schedule + of.param.replicas + "on" + std::to_string(of.param.processes) +
                  of.param.transport;
      std::erase_if(name, [](char c) { return c == '-' || c == ','; });
      return name;
    });

TEST(ProcessesOptions, TooManyProcessesAreRefusedInOneLine) {
  const auto r = run_process(launched(3, tiny_lenet({"--stages", "2"})), patience);
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.errors, HasSubstr("the job has 3 processes, the plan 2 stage replicas"));
}

TEST(ProcessesOptions, TheOracleStaysInOneProcess) {
  const auto r = run_process(launched(2, tiny_lenet({"--stages", "2", "--executor", "oracle"})), patience);
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.errors, HasSubstr("the oracle runs in one process; this job has 2"));
}

TEST(ProcessesOptions, AFailureOnAnotherRankIsToldOnceByRankZero) {
  const auto r = run_process(launched(2, tiny_lenet({"--stages", "2", "--lr", "1e30"})), patience);
  EXPECT_EQ(r.exit_code, 1);
  const auto lines = r.error_lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& l) { return l.find("not finite") != std::string::npos; }),
            1)
      << r.errors;
}

TEST(ProcessesOptions, APlanFoundInAJobIsRunByIt) {
  const temporary_folder folder;
  const auto r = run_process(
      launched(2, program("lenet", {"--synthetic-samples", "64", "--batch", "16", "--plan", "auto", "--save-plan",
                                    folder / "p.json"})),
      patience);
  ASSERT_EQ(r.exit_code, 0) << r.errors << r.output;
  EXPECT_THAT(r.output, HasSubstr("link between ranks 0 and 1"));
  EXPECT_THAT(read_text(folder / "p.json"), HasSubstr("cpu:0"));
}

TEST(ProcessesOptions, LinksBetweenRanksAreMeasuredForThePlanner) {
  const temporary_folder folder;
  const auto r =
      run_process(launched(3, program("penstock", {"cluster", "measure", "-o", folder / "c.toml"})), patience);
  ASSERT_EQ(r.exit_code, 0) << r.errors;
  const auto text = read_text(folder / "c.toml");
  EXPECT_THAT(text, HasSubstr("count = 3"));
  EXPECT_THAT(text, HasSubstr("group = 3"));
  EXPECT_THAT(text, Not(HasSubstr("by_reference = true")));
}

} // namespace
} // namespace penstock::test
