// GNMT on text as a person runs it: trained on pairs, gone on with, and translating lines.
#include "tests/apps/programs.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace penstock::test {
namespace {

using testing::HasSubstr;
using testing_support::write_file;

// Empty ones too.
std::vector<std::string> lines_of(const process_result& run) {
  std::vector<std::string> lines;
  std::istringstream text(run.output);
  for (std::string line; std::getline(text, line);)
    lines.push_back(line);
  return lines;
}

class GnmtText : public testing::Test {
protected:
  void SetUp() override {
    write_file(folder_ / "words.txt", "<unk>\n<eos>\na\nb\nc\nd\nx\ny\nz\n");
    std::string sources, targets;
    for (int i = 0; i < 40; ++i) {
      for (int word = 0; word <= i * 7 % 9; ++word) {
        sources += std::string(word > 0 ? " " : "") + "abcd"[(i + word) % 4];
        targets += std::string(word > 0 ? " " : "") + "xyzx"[(i + word) % 4];
      }
      sources += '\n';
      targets += '\n';
    }
    write_file(folder_ / "a.src", sources);
    write_file(folder_ / "a.tgt", targets);
  }

  process_result gnmt(const std::vector<std::string>& arguments, const std::string& lines = "") {
    write_file(folder_ / "lines.txt", lines);
    std::string command;
    for (const auto& word : program("gnmt8", arguments))
      command += "'" + word + "' ";
    return run_process({"/bin/sh", "-c", command + "< lines.txt"}, patience,
                       {.folder = folder_.path(), .variables = {}});
  }
  process_result train(std::vector<std::string> more) {
    std::vector<std::string> all{"--data",      "parallel:a.src,a.tgt",
                                 "--tokenizer", "words.txt",
                                 "--width",     "0.01",
                                 "--batch",     "4",
                                 "--threads",   "1",
                                 "--lr",        "0.02"};
    all.insert(all.end(), more.begin(), more.end());
    return gnmt(all);
  }
  process_result translate(const std::string& lines, std::vector<std::string> more = {}) {
    std::vector<std::string> all{"--translate", "-",       "--tokenizer",  "words.txt", "--weights",
                                 "w.st",        "--width", "0.01",         "--threads", "1",
                                 "--batch",     "3",       "--max-length", "12"};
    all.insert(all.end(), more.begin(), more.end());
    return gnmt(all, lines);
  }
  nlohmann::json last_line(const std::string& file) {
    std::ifstream lines(folder_ / file);
    std::string last;
    for (std::string line; std::getline(lines, line);)
      last = line;
    return nlohmann::json::parse(last);
  }

  testing_support::temporary_folder folder_;
};

TEST_F(GnmtText, ARunInBucketsGoesOnWithinAnEpochToTheSameBits) {
  const auto leg = [&](const std::string& to, std::vector<std::string> more) {
    // A drain is part of the run's definition: both have one after each eighth minibatch.
    std::vector<std::string> all{"--bucket-width", "3",  "--epochs",  "2",          "--stages",           "2",
                                 "--eval-every",   "-1", "--metrics", to + ".json", "--checkpoint-every", "8",
                                 "--checkpoint",   to};
    all.insert(all.end(), more.begin(), more.end());
    return train(all);
  };
  const auto whole = leg("whole", {}), part = leg("parts", {"--steps", "8"}), rest = leg("parts", {"--resume"});
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  ASSERT_EQ(part.exit_code, 0) << part.errors;
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(whole.output, testing::ContainsRegex("parallel text: 40 pairs from a.src and a.tgt, .*: [0-9]+ "
                                                   "minibatches of [2-9] shapes, [0-9]+[.][0-9]% padding"));
  const auto one = last_line("whole.json"), two = last_line("parts.json");
  EXPECT_EQ(two["resumed_after"], 8);
  for (const char* what : {"steps", "weights_sha256", "state_sha256"})
    EXPECT_EQ(one[what], two[what]) << what;
}

TEST_F(GnmtText, LinesAreTranslatedInTheirOrderWhateverTheStages) {
  const auto trained = train({"--epochs", "4", "--save-weights", "w.st"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const std::string lines = "a b c d\n\n \nb\na a a a a a a a a a\nb unknown\n";
  const auto one = translate(lines);
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  const auto found = lines_of(one);
  ASSERT_EQ(found.size(), 6U) << one.output;
  EXPECT_EQ(found[1], "");
  EXPECT_EQ(found[2], "");
  EXPECT_THAT(one.output, testing::Not(HasSubstr("<")));
  EXPECT_EQ(translate(lines, {"--stages", "2"}).output, one.output);
  EXPECT_EQ(translate(lines, {"--stages", "3", "--reference-kernels"}).exit_code, 0);
  // The same line has the same translation wherever it stands.
  EXPECT_EQ(lines_of(translate("b\n")).at(0), found[3]);
  const auto greedy = translate(lines, {"--beam", "1"});
  EXPECT_EQ(greedy.exit_code, 0);
  EXPECT_EQ(lines_of(greedy).size(), 6U);
  write_file(folder_ / "in.txt", lines);
  EXPECT_EQ(translate("", {"--translate", "in.txt"}).output, one.output);
  EXPECT_EQ(translate("").output, "");
}

TEST_F(GnmtText, ATranslationIsNoLongerThanTheLimit) {
  ASSERT_EQ(train({"--steps", "1", "--save-weights", "w.st", "--eval-every", "-1"}).exit_code, 0);
  for (const char* limit : {"1", "3"})
    for (const auto& line : lines_of(translate("a b c d\nb b\n", {"--max-length", limit, "--beam", "2"})))
      EXPECT_LE(std::count(line.begin(), line.end(), ' '), std::stoi(limit) - 1) << line;
}

TEST_F(GnmtText, LongLinesAreCutAndCounted) {
  ASSERT_EQ(train({"--steps", "1", "--save-weights", "w.st", "--eval-every", "-1"}).exit_code, 0);
  std::string line = "a";
  for (int i = 0; i < 1100; ++i)
    line += " b";
  const auto run = translate(line + "\n", {"--max-length", "2", "--beam", "1"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("1 line had more than 1024 tokens and was cut"));
}

TEST_F(GnmtText, WhatDoesNotFitIsRefusedInOneLine) {
  ASSERT_EQ(train({"--steps", "1", "--save-weights", "w.st", "--eval-every", "-1"}).exit_code, 0);
  const auto refused = [&](const process_result& run, int code, const std::string& says) {
    EXPECT_EQ(run.exit_code, code) << says;
    EXPECT_EQ(run.output, "");
    ASSERT_EQ(run.error_lines().size(), 1U) << run.errors;
    EXPECT_THAT(run.errors, HasSubstr(says));
  };
  refused(translate("a\nb \xff\n"), 1, "standard input: line 2: ");
  refused(translate("", {"--translate", "missing.txt"}), 1, "missing.txt");
  refused(translate("a\n", {"--width", "0.02"}), 2, "does not fit gnmt8");
  refused(translate("a\n", {"--tied"}), 2, "decoder.embedder.weight and encoder.embedder.weight differ");
  refused(translate("a\n", {"--vocabulary", "8"}), 2, "--vocabulary: found 8, wanted at least the 11 tokens");
  refused(translate("a\n", {"--stages", "300"}), 2, "--stages: ");
  refused(translate("a\n", {"--beam", "0"}), 2, "--beam");
  refused(gnmt({"--translate", "-", "--weights", "w.st"}, "a\n"), 2, "--tokenizer: wanted --tokenizer FILE");
  refused(gnmt({"--translate", "-", "--tokenizer", "words.txt"}, "a\n"), 2, "--weights: wanted --weights FILE");

  write_file(folder_ / "short.tgt", "x\n");
  refused(train({"--data", "parallel:a.src,short.tgt"}), 1,
          "short.tgt: ends after line 1, wanted one for each line of");
  refused(train({"--vocabulary", "10"}), 2, "--vocabulary: found 10, wanted at least the 11 tokens");
  refused(train({"--max-length", "2"}), 2, "found a limit of 2 tokens");
}

} // namespace
} // namespace penstock::test
