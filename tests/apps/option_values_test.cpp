// Bad values of every option of every program, as the programs' own help lists them: one line that names the option.
#include "tests/apps/programs.hpp"
#include "tests/support/published_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

namespace penstock::test {
namespace {

struct subject {
  std::string name; ///< of the test
  std::vector<std::string> command;
  std::vector<std::string> before; ///< what it needs beside the option
  std::vector<std::string> behind; ///< what must come last
};

void PrintTo(const subject& s, std::ostream* out) {
  *out << s.name;
}

struct listed_option {
  std::string name;
  std::string placeholder; ///< N, X, FILE, ...
};

std::vector<listed_option> options_with_values(const std::string& help) {
  static const std::regex form(R"((?:^|\n)  (?:-\w,)?(--[a-z-]+) ([A-Z][^\s=]*|DEVICE=FACTOR)(?:=\S*)?)");
  std::vector<listed_option> found;
  for (std::sregex_iterator at(help.begin(), help.end(), form), end; at != end; ++at)
    found.push_back({(*at)[1], (*at)[2]});
  return found;
}

const std::vector<std::string> no_whole_number{
    "-9223372036854775809", "99999999999999999999", "nan", "many", "1.5", "1 "};
const std::vector<std::string> no_number{"-1", "nan", "inf", "1e400", "many", "1,5"};
const std::vector<std::string> no_counts{"many", "1,", ",1", "1,,2", "0", "-1", "99999999999"};
const std::string long_name(300, 'x');

// By option where the placeholder does not say what is bad. An option that takes every text has none.
const std::map<std::string, std::vector<std::string>> by_option{
    {"--bandwidth", {"-1", "nan", "many", "1 lightyear"}},
    {"--backward-time", {"-1", "nan", "inf", "many", "1,,2", "1,2,3,4"}},
    {"--cluster", {"nowhere/cluster.toml"}},
    {"--control", {"many", "-1", "65536", "a b:7001", ":7001", "host:", "1:2:3"}},
    {"--cuts", {"nolayer", "a,,b", ","}},
    {"--data", {"nothing", "idx", "idx:nowhere", "tensors:nowhere", "synthetic:3"}},
    {"--dropout", {"1", "1.5", "-1", "nan"}},
    {"--forward-time", {"-1", "nan", "inf", "many", "1,,2", "1,2,3,4"}},
    {"--frozen-until", {"nolayer", "conv1"}}, // nothing is before the first one
    {"--hosts", {",", "a:0", "a:many", "a:99999"}},
    {"--in-flight", {"loose", "1,,2", "0", "-1", "99999999999"}},
    {"--keep-together", {"nolayer", "a..b"}},
    {"--label-smoothing", {"1", "1.5", "-1", "nan"}},
    {"--latency", {"-1", "nan", "many", "1 lightyear"}},
    {"--lr-schedule", {"cosin", "step", "step:every=0", "cosine,final=nan", "cosine,final", "constant,warmup=-1"}},
    {"--master", {"nowhere", "host:0", "host:99999", ":1"}},
    {"--memory", {"-1", "nan", "many", "1 lightyear"}},
    {"--net-devices", {}}, // whether it exists is known when hosts are connected
    {"--plan", {"nowhere.json"}},
    {"--plan-cache", {"/dev/null/folder"}},
    {"--plugin", {"nowhere.so", "/dev/null"}},
    {"--profile", {"nowhere/profile.json"}},
    {"--recompute", {"some", "9", "-1", "0,,1"}},
    {"--replan", {"7", "7:", ":plan.json", "0:plan.json", "-1:plan.json", "many:plan.json", "1:nowhere.json"}},
    {"--replace-layer", {"relu", "relu=nothing", "=", "nolayer=relu"}},
    {"--secret-file", {"nowhere/secret", ".", "/dev/null"}},
    {"--samples", no_counts},
    {"--microbatches", no_counts},
    {"--replicas", no_counts},
    {"--schedule", {"pipedraem", "gpipe,,1f1b"}},
    {"--send-time", {"-1", "nan", "inf", "many", "1,,2", "1,2,3,4"}},
    {"--ssh", {" "}},
    {"--straggler", {"cpu", "cpu=", "cpu=nan", "nodevice=2"}},
    {"--update-lag", {"late", "1,,2", "-1", "0.5", "99999999999"}},
    {"--update-time", {"-1", "nan", "inf", "many", "1,,2", "1,2,3,4"}},
    {"--weight-time", {"-1", "nan", "inf", "many", "1,,2", "1,2,3,4", "3"}}, // more than the backward's 2
    {"--weights", {"nowhere.safetensors", ".", "/dev/zero"}},
    {"--weights-prefix", {}}, // a word of the file's
};

// Nothing where the table lacks the option.
const std::vector<std::string>* bad_values(const listed_option& o) {
  static const std::map<std::string, std::vector<std::string>> by_placeholder{
      {"N", no_whole_number},
      {"N,N,...", no_counts},
      {"X", no_number},
      {"NAME", {"nothing-of-the-kind"}},
      {"FILE", {"nowhere/file", ".", long_name}},
      {"DIR", {"/dev/null/folder"}}};
  if (o.placeholder == "N") return &by_placeholder.at("N");
  if (const auto found = by_option.find(o.name); found != by_option.end()) return &found->second;
  const auto found = by_placeholder.find(o.placeholder);
  return found != by_placeholder.end() ? &found->second : nullptr;
}

class OptionValues : public testing::TestWithParam<subject> {
protected:
  process_result run(const std::vector<std::string>& words) const {
    auto command = GetParam().command;
    command[0] = program(command[0])[0];
    command.insert(command.end(), words.begin(), words.end());
    return run_process(command, patience, {.folder = folder_.path()});
  }

  void expect_refused(const listed_option& o, const std::vector<std::string>& form) const {
    auto words = GetParam().before;
    words.insert(words.end(), form.begin(), form.end());
    words.insert(words.end(), GetParam().behind.begin(), GetParam().behind.end());
    const auto result = run(words);
    const auto told = testing::PrintToString(form);
    EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2) << told << " ended with " << result.exit_code;
    EXPECT_EQ(result.error_lines().size(), 1U) << told << ": " << result.errors;
    EXPECT_THAT(result.errors, testing::HasSubstr(o.name)) << told;
    EXPECT_LT(result.errors.size(), 700U) << told;
  }

  temporary_folder folder_;
};

TEST_P(OptionValues, AreRefusedInOneLineThatNamesTheOption) {
  const auto help = run({"--help"});
  ASSERT_EQ(help.exit_code, 0) << help.errors;
  const auto options = options_with_values(help.output);
  EXPECT_GE(options.size(), 2U) << help.output;
  for (const auto& o : options) {
    const auto* values = bad_values(o);
    if (values == nullptr) {
      ADD_FAILURE() << o.name << " " << o.placeholder << " is not in the table of bad values";
      continue;
    }
    expect_refused(o, {o.name, ""});
    expect_refused(o, {o.name + "="});
    for (const auto& value : *values)
      expect_refused(o, {o.name, value});
  }
  EXPECT_TRUE(folder_.empty());
}

std::string graph() {
  return published_graph_file("vgg16").string();
}

INSTANTIATE_TEST_SUITE_P(
    All, OptionValues,
    testing::Values(subject{"App", {"lenet", "--synthetic-samples", "16", "--batch", "8", "--steps", "1"}, {}, {}},
                    subject{"Models", {"penstock", "models"}, {}, {}},
                    subject{"Profile", {"penstock", "profile", "lenet"}, {}, {}},
                    subject{"Cluster", {"penstock", "cluster", "measure"}, {}, {}},
                    subject{"Plan", {"penstock", "plan", graph()}, {"--workers", "2", "--bandwidth", "1e9"}, {}},
                    subject{"Schedule", {"penstock", "schedule", "--stages", "2"}, {}, {}},
                    subject{"Replan", {"penstock", "replan"}, {}, {graph()}},
                    subject{"Launch", {"penstock", "launch"}, {"-np", "1"}, {"--", "true"}}),
    [](const auto& of) { return of.param.name; });

} // namespace
} // namespace penstock::test
