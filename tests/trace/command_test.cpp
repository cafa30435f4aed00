// `penstock trace`: what each command prints, and its exit codes.
#include "tests/trace/split_run.hpp"
#include "tests/trace/synthetic_run.hpp"
#include "tools/trace/command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace penstock::actors {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct result {
  int code = 0;
  std::string out;
  std::string err;
};

result run_trace(const std::vector<std::string>& args) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = trace_command(args, out, err);
  return {code, out.str(), err.str()};
}

class TraceCommand : public testing::Test {
protected:
  TraceCommand() : file_("command.pftrace"), run_(make_run({.name = "pipedream", .replicas = {2, 1}}, {12, 5})) {
    run_.write(file_.path());
  }
  std::string path() const { return file_.path().string(); }

  scratch_file file_;
  synthetic_run run_;
};

TEST_F(TraceCommand, CheckPassesAGoodTrace) {
  const auto r = run_trace({"check", path()});
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.out, HasSubstr("17 minibatches"));
  EXPECT_THAT(r.out, HasSubstr("the history holds"));
  EXPECT_EQ(r.err, "");
}

TEST_F(TraceCommand, NamesFromAFileReachNoTerminalWithTheirControlCharacters) {
  auto run = run_;
  run.header.model = "net\n\x1b[2J\xc2\x9bm";
  run.header.plan.schedule = std::string(5000, 's');
  set_layers(run.header, {"conv\t1 .. \r", "fc \xc3\xa4"});
  run.write(file_.path());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"summary", path()}, {"lifeline", path(), "1"}, {"diff", path(), path()}}) {
    const auto r = run_trace(words);
    EXPECT_EQ(r.code, 0) << r.err;
    for (const char* hostile : {"\x1b", "\r", "\t", "\xc2\x9b"})
      EXPECT_THAT(r.out, Not(HasSubstr(hostile))) << words[0];
    EXPECT_THAT(r.out, HasSubstr("net??[2J??m")) << words[0];
  }
  const auto summary = run_trace({"summary", path()}).out;
  EXPECT_THAT(summary, HasSubstr("fc \xc3\xa4"));
  EXPECT_THAT(summary, Not(HasSubstr(std::string(1001, 's'))));
}

TEST_F(TraceCommand, CheckFailsAnEditedTrace) {
  const auto edited = [&](auto edit) {
    auto run = run_;
    edit(run);
    run.write(file_.path());
    const auto r = run_trace({"check", path()});
    EXPECT_EQ(r.code, 1);
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1);
    return r.err;
  };
  EXPECT_EQ(edited([](auto& run) { run.find(span_kind::backward, 0, 9).version_read += 1; }),
            "stage 0 replica 1: backward of minibatch 9 read version 4, its forward read 3\n");
  EXPECT_EQ(edited([](auto& run) { run.erase(run.find(span_kind::forward, 1, 9)); }),
            "stage 1: no forward of minibatch 9\n");
  EXPECT_EQ(edited([](auto& run) { run.records.push_back(run.find(span_kind::update, 1, 16)); }),
            "stage 1: update from version 16 to 17, wanted from 17 to 18\n");
}

TEST_F(TraceCommand, CheckDoesNotJudgeATraceThatBreaksOff) {
  file_.replace(file_.bytes().substr(0, file_.bytes().size() / 2));
  const auto r = run_trace({"check", path()});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.err, HasSubstr("the trace is incomplete: the file breaks off at byte"));
}

TEST_F(TraceCommand, SummaryPrintsATableOrJson) {
  EXPECT_THAT(run_trace({"summary", path()}).out, HasSubstr("bubble"));
  const auto r = run_trace({"summary", path(), "--json"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out.front(), '{');
}

TEST_F(TraceCommand, TimelineDrawsARowForEachReplica) {
  const auto r = run_trace({"timeline", path(), "--from=2", "--to", "5", "--width", "60"});
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* part : {"stage 0.0 |", "stage 0.1 |", "stage 1", "<", ">"})
    EXPECT_THAT(r.out, HasSubstr(part));
}

TEST_F(TraceCommand, LifelineFollowsOneMinibatchInTime) {
  const auto r = run_trace({"lifeline", path(), "4"});
  EXPECT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  std::string line;
  std::vector<std::string> rows;
  while (std::getline(lines, line))
    rows.push_back(line);
  // Title and heads; two forwards, two backwards, an update on stage 1 and one on each replica of stage 0.
  ASSERT_EQ(rows.size(), 9U) << r.out;
  EXPECT_THAT(rows[2], HasSubstr("stage 0 replica 0   forward"));
  EXPECT_THAT(rows[3], HasSubstr("stage 1             forward"));
  EXPECT_THAT(rows[4], HasSubstr("stage 1             backward"));
  EXPECT_THAT(rows[5], HasSubstr("stage 0 replica 0   backward"));
  EXPECT_THAT(rows[6], HasSubstr("stage 1             update"));
  EXPECT_THAT(rows[6], HasSubstr("4 -> 5"));
}

TEST_F(TraceCommand, AMinibatchThatIsNotThereIsNamed) {
  const auto r = run_trace({"lifeline", path(), "17"});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.err, "penstock: trace: the trace has no minibatch 17, only 0 to 16\n");
  EXPECT_EQ(run_trace({"timeline", path(), "--from", "100"}).code, 1);
}

TEST_F(TraceCommand, UsageErrorsSuggestTheNearestWord) {
  EXPECT_THAT(run_trace({"sumary", path()}).err, HasSubstr("did you mean 'summary'?"));
  EXPECT_THAT(run_trace({"timeline", path(), "--widht", "3"}).err, HasSubstr("did you mean '--width'?"));
  for (const std::vector<std::string>& args : {std::vector<std::string>{},
                                               {"sumary", path()},
                                               {"check"},
                                               {"check", path(), "more"},
                                               {"lifeline", path()},
                                               {"lifeline", path(), "x"},
                                               {"timeline", path(), "--from"},
                                               {"timeline", path(), "--width", "3"},
                                               {"timeline", path(), "--from", "5", "--to", "2"},
                                               {"summary", path(), "--jsn"},
                                               {"check", path(), "--json"}}) {
    const auto r = run_trace(args);
    EXPECT_EQ(r.code, 2) << testing::PrintToString(args);
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_THAT(r.err, StartsWith("penstock: trace"));
    EXPECT_EQ(r.out, "");
  }
}

TEST_F(TraceCommand, AFileThatCannotBeReadIsOneLine) {
  const auto r = run_trace({"summary", path() + ".not"});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.err, "penstock: trace: cannot read trace '" + path() + ".not': No such file or directory\n");
}

TEST_F(TraceCommand, MergeMakesOneTraceOfAllRanks) {
  split_run ranks({run_.header, run_.records, {}}, {{0, 1}, {1}}, {{"a", 0, 0}, {"b", 5'000'000'000, 0}});
  ranks.write();
  const scratch_file out("merged.pftrace");
  auto r = run_trace({"merge", ranks.path(0).string(), ranks.path(1).string(), "-o", out.path().string()});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.out, std::to_string(run_.records.size()) + " records of 2 ranks in '" + out.path().string() +
                       "', measured clocks corrected by up to 0.0 us\n");
  EXPECT_EQ(run_trace({"check", out.path().string()}).code, 0);
  EXPECT_THAT(run_trace({"summary", out.path().string()}).out, HasSubstr("2 ranks on 2 hosts"));
  EXPECT_THAT(run_trace({"summary", ranks.path(1).string()}).out, HasSubstr("rank 1 of 2 alone"));
  r = run_trace({"merge", ranks.path(0).string(), "--output=" + out.path().string()});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "penstock: trace: warning: the trace is incomplete: no trace of rank 1\n");
  EXPECT_EQ(run_trace({"check", out.path().string()}).code, 1);
  EXPECT_EQ(run_trace({"merge", ranks.path(0).string()}).code, 2);
  EXPECT_EQ(run_trace({"merge", "-o", out.path().string()}).code, 2);
  EXPECT_EQ(run_trace({"merge", path(), "-o", out.path().string()}).code, 1);
}

TEST_F(TraceCommand, HelpIsPrinted) {
  EXPECT_EQ(run_trace({"--help"}).code, 0);
  EXPECT_THAT(run_trace({"check", "--help"}).out, HasSubstr("usage: penstock trace"));
}

} // namespace
} // namespace penstock::actors
