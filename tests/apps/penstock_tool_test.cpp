// The bundled tool's commands.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <iterator>
#include <sstream>

namespace penstock::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

process_result penstock_tool(std::vector<std::string> arguments) {
  return run_process(program("penstock", std::move(arguments)), patience);
}

TEST(PenstockTool, AnswersAnUnknownCommandWithTheNearest) {
  const auto result = penstock_tool({"tran"});
  EXPECT_EQ(result.exit_code, 2);
  ASSERT_EQ(result.error_lines().size(), 1U) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("did you mean 'train'"));
}

TEST(PenstockTool, ListsItsCommandsWhenThereIsNone) {
  const auto without = penstock_tool({});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.errors, AllOf(HasSubstr("models"), HasSubstr("trace"), HasSubstr("schedule")));
  const auto asked = penstock_tool({"--help"});
  EXPECT_EQ(asked.exit_code, 0);
  EXPECT_EQ(asked.output, without.errors);
}

TEST(PenstockTool, TellsItsVersion) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"version"}, {"--version"}, {"-V"}, {"plan", "--version"}, {"train", "lenet", "-V"}}) {
    const auto result = penstock_tool(words);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.output, testing::MatchesRegex("penstock [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  }
  EXPECT_EQ(run_process(program("lenet", {"--version"}), patience).output, penstock_tool({"version"}).output);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(PenstockTool, EveryCommandAnswersHelp) {
  std::vector<std::string> all{"models",
                               "train",
                               "profile",
                               "cluster",
                               "cluster measure",
                               "plan",
                               "simulate",
                               "schedule",
                               "launch",
                               "trace",
                               "score",
                               "score bleu",
                               "version",
                               "train lenet",
                               "tokenizer",
                               "tokenizer train",
                               "tokenizer encode",
                               "tokenizer decode"};
  for (const char* command : {"summary", "timeline", "lifeline", "check", "diff", "merge"})
    all.push_back(std::string("trace ") + command);
  for (const auto& command : all) {
    const auto asked = penstock_tool(words_of(command + " --help"));
    EXPECT_EQ(asked.exit_code, 0) << command << ": " << asked.errors;
    EXPECT_THAT(asked.output, testing::ContainsRegex("[Uu]sage: ")) << command;
    EXPECT_EQ(asked.errors, "") << command;
    for (const auto& form : {command + " -h", "help " + command}) {
      const auto same = penstock_tool(words_of(form));
      EXPECT_EQ(same.exit_code, 0) << form << ": " << same.errors;
      EXPECT_EQ(same.output, asked.output) << form;
    }
  }
}

TEST(PenstockTool, SchedulesOfAbsurdSizeAreRefusedBeforeTheyAreListed) {
  for (const auto& [words, says] : std::vector<std::pair<std::string, std::string>>{
           {"schedule --stages 2 --minibatches 10000000",
            "--minibatches: found 10000000, wanted at most 1000000 of 2 stages with 1 micro-batches per minibatch"},
           {"schedule --stages 4096 --schedule gpipe --microbatches 1000000",
            "found 4096 stages with 1000000 micro-batches per minibatch, wanted at most 2000000 forwards a "
            "minibatch"}}) {
    const auto result = penstock_tool(words_of(words));
    EXPECT_EQ(result.exit_code, 2) << words;
    ASSERT_EQ(result.error_lines().size(), 1U) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(says));
  }
}

TEST(PenstockTool, AnswersWordsThatAreNoCommandInOneLine) {
  for (const auto& [words, says] :
       std::vector<std::pair<std::string, std::string>>{{"nope", "wanted one of models"},
                                                        {"modles", "did you mean 'models'"},
                                                        {"help nope", "unknown command"},
                                                        {"train", "there are lenet, alexnet"},
                                                        {"train --steps 2", "there are lenet"},
                                                        {"train nope", "no model 'nope'"},
                                                        {"train nope --help", "no model 'nope'"},
                                                        {"cluster", "wanted measure"},
                                                        {"version now", "'now'"},
                                                        {"trace sumary", "'summary'"}}) {
    const auto result = penstock_tool(words_of(words));
    EXPECT_EQ(result.exit_code, 2) << words;
    EXPECT_EQ(result.output, "") << words;
    EXPECT_EQ(result.error_lines().size(), 1U) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(says)) << words;
  }
}

TEST(PenstockTool, ListsModelsAndTheLayersOfOne) {
  const auto all = penstock_tool({"models"});
  EXPECT_EQ(all.exit_code, 0) << all.errors;
  for (const char* name : {"lenet", "alexnet", "vgg11", "vgg16", "resnet18", "resnet50", "inception_v3", "vit_b_16",
                           "bert", "awd_lm", "gnmt8", "gnmt16", "gnmt_large", "s2vt"})
    EXPECT_THAT(all.output, HasSubstr(name));
  const auto one = penstock_tool({"models", "lenet"});
  EXPECT_EQ(one.exit_code, 0) << one.errors;
  EXPECT_THAT(one.output, AllOf(HasSubstr("conv1"), HasSubstr("fc3"), HasSubstr("61,706")));
  const auto unknown = penstock_tool({"models", "lenett"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("did you mean 'lenet'"));
}

TEST(PenstockTool, TrainsAModelByName) {
  const auto result = penstock_tool({"train", "lenet", "--steps", "2", "--synthetic-samples", "16", "--batch", "8"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("done: 2 steps"));
  const auto without = penstock_tool({"train", "--steps", "2"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_EQ(without.error_lines().size(), 1U) << without.errors;
  const auto unknown = penstock_tool({"train", "vgg61", "--steps", "2"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("did you mean 'vgg"));
}

TEST(PenstockTool, DrawsTheWeightsPartOfASplitBackward) {
  const auto result = penstock_tool({"schedule", "--schedule", "zb-h1", "--stages", "3", "--microbatches", "6",
                                     "--minibatches", "1", "--columns", "80", "--weight-time", "0.5"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  // F 1, I 1.5, W 0.5: 6 * 3 units of work and (3 - 1) * (1 + 1.5 - 0.5) of waiting.
  EXPECT_THAT(result.output, AllOf(HasSubstr("bubble 18.18 %"), HasSubstr("=7 its weights' part")));
}

TEST(PenstockTool, DrawsASchedule) {
  const auto result = penstock_tool({"schedule", "--schedule", "gpipe", "--stages", "3", "--microbatches", "3",
                                     "--minibatches", "1", "--columns", "80"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  // Three stages, forward 1, backward 2: (3 + 3 - 1) * 3 units of time, 3 * 3 of them busy on each stage.
  EXPECT_THAT(result.output, AllOf(HasSubstr("gpipe"), HasSubstr("bubble 40.00 %"), HasSubstr("stage 2")));
  for (const auto& line : lines_of(result.output))
    EXPECT_LE(line.size(), 100U) << line;
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

TEST(PenstockTool, FitsItsTablesAndHelpToTheTerminal) {
  const std::vector<std::vector<std::string>> commands{{"models"},
                                                       {"schedule", "--stages", "4", "--replicas", "2,1,1,1"},
                                                       {"train", "lenet", "--help"},
                                                       {"profile", "--help"},
                                                       {"plan", "--help"},
                                                       {"launch", "--help"}};
  for (const auto& words : commands) {
    const auto result = run_process(program("penstock", words), patience, {.terminal = true}); // of 80 columns
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    const auto lines = lines_of(result.output);
    for (const auto& line : lines)
      EXPECT_LE(line.size(), 81U) << line; // the terminal adds a carriage return
    EXPECT_GT(lines.size(), 6U);
    if (words.back() != "--help") continue;
    const auto whole = run_process(program("penstock", words), patience); // not broken: the same words
    EXPECT_EQ(without_blanks(result.output), without_blanks(whole.output));
  }
}

TEST(PenstockTool, RefusesAScheduleThatCannotBe) {
  for (const auto& [arguments, words] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--schedule", "gpip"}, "did you mean 'gpipe'"},
           {{"--stages", "2", "--forward-time", "1,2,3"}, "--forward-time"},
           {{"--stages", "2", "--backward-time", "-1"}, "--backward-time"},
           {{"--stages", "2", "--in-flight", "1,2"}, "in-flight"},
           {{"--columns", "3"}, "--columns"},
           {{"--schedule", "pipedream", "--microbatches", "4"}, "2bw"}}) {
    auto all = arguments;
    all.insert(all.begin(), "schedule");
    const auto result = penstock_tool(all);
    EXPECT_EQ(result.exit_code, 2) << words;
    EXPECT_EQ(result.error_lines().size(), 1U) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(words));
  }
}

TEST(PenstockTool, PassesItsWordsToTheTraceReader) {
  const auto result = penstock_tool({"trace", "summary", "nowhere.pftrace"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("nowhere.pftrace"));
}

} // namespace
} // namespace penstock::test
