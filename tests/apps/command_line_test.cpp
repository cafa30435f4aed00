// Declarations in, values or one clear line out.
#include "apps/runner/command_line.hpp"
#include "apps/runner/options.hpp"
#include "apps/runner/peer_options.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::apps {
namespace {

using testing::HasSubstr;

class CommandLine : public testing::Test {
protected:
  CommandLine() {
    line_.group("Numbers");
    line_.whole("--batch", batch_, 1, "Samples");
    line_.whole("--stages", stages_, 1, "Stages [1]");
    line_.real("--rate", rate_, 0, 10, "Rate");
    line_.group("Words");
    line_.text("--data", data_, "SPEC", "Data");
    line_.texts("--plugin", plugins_, "FILE", "Plug-in");
    line_.flag("--quiet", quiet_, "Say little");
    line_.off("--no-augment", augment_, "Do not augment");
  }

  bool parse(std::vector<std::string> words) { return line_.parse(words); }

  std::string refusal(std::vector<std::string> words) {
    try {
      line_.parse(words);
    } catch (const usage_error& fault) {
      return fault.what();
    }
    return "accepted";
  }

  std::int64_t batch_ = 32;
  int stages_ = 0;
  float rate_ = 0.1F;
  std::string data_ = "synthetic";
  std::vector<std::string> plugins_;
  bool quiet_ = false;
  bool augment_ = true;
  command_line line_{"program", "Does things."};
};

TEST_F(CommandLine, KeepsDefaultsWhereNothingIsGiven) {
  EXPECT_TRUE(parse({}));
  EXPECT_EQ(batch_, 32);
  EXPECT_EQ(rate_, 0.1F);
  EXPECT_EQ(data_, "synthetic");
  EXPECT_TRUE(augment_);
  EXPECT_FALSE(line_.given("--batch"));
}

TEST_F(CommandLine, ReadsEveryKindInBothForms) {
  EXPECT_TRUE(
      parse({"--batch", "8", "--rate=2.5", "--data", "x:y", "--plugin", "a", "--plugin=b", "--quiet", "--no-augment"}));
  EXPECT_EQ(batch_, 8);
  EXPECT_EQ(rate_, 2.5F);
  EXPECT_EQ(data_, "x:y");
  EXPECT_THAT(plugins_, testing::ElementsAre("a", "b"));
  EXPECT_TRUE(quiet_);
  EXPECT_FALSE(augment_);
  EXPECT_TRUE(line_.given("--batch"));
}

TEST_F(CommandLine, AnOptionWithoutNeedOfAValueStandsAloneOrBeforeOneOfItsWords) {
  const auto read = [](std::vector<std::string> words) {
    std::string value;
    bool quiet = false;
    command_line line("program", "Does things.");
    line.optional_choice("--resume", value, {"last", "auto"}, "Go on");
    line.flag("--quiet", quiet, "Say little");
    line.parse(words);
    return value;
  };
  EXPECT_EQ(read({}), "");
  EXPECT_EQ(read({"--resume"}), "last");
  EXPECT_EQ(read({"--resume", "--quiet"}), "last");
  EXPECT_EQ(read({"--resume", "auto", "--quiet"}), "auto");
  EXPECT_EQ(read({"--resume=auto"}), "auto");
  EXPECT_EQ(read({"--resume=auto", "--resume"}), "last");
  EXPECT_THAT(
      [&] {
        read({"--resume", "never"});
      },
      testing::ThrowsMessage<usage_error>("--resume: found 'never', wanted auto, or no value"));
  EXPECT_THROW(read({"--resume="}), usage_error);
}

TEST_F(CommandLine, TakesTheLastOfSeveral) {
  EXPECT_TRUE(parse({"--batch", "8", "--batch", "16"}));
  EXPECT_EQ(batch_, 16);
}

TEST_F(CommandLine, SuggestsTheNearestOption) {
  EXPECT_THAT(refusal({"--bacth", "8"}), HasSubstr("did you mean '--batch'"));
}

TEST_F(CommandLine, SuggestsOnlyWhatIsNear) {
  EXPECT_EQ(refusal({"--zero", "8"}), "unknown option '--zero'; --help lists all");
  EXPECT_THAT(refusal({"--Stages", "8"}), HasSubstr("did you mean '--stages'"));
  EXPECT_THAT(refusal({"--plug", "8"}), HasSubstr("did you mean '--plugin'"));
  EXPECT_THAT(refusal({"help"}), HasSubstr("did you mean '--help'"));
}

TEST_F(CommandLine, KnowsWhatPeersCallAnOption) {
  EXPECT_EQ(refusal({"--batch-size", "8"}),
            "unknown option '--batch-size' (here it is '--batch': samples of a minibatch, all its micro-batches "
            "together); --help lists all");
  EXPECT_THAT(refusal({"--Batch_Size=8"}), HasSubstr("here it is '--batch'"));
  EXPECT_THAT(refusal({"--gpu", "0"}), HasSubstr("there is none: it computes on the CPU"));
  EXPECT_EQ(refusal({"--learning-rate", "8"}), "unknown option '--learning-rate'; --help lists all"); // no --lr here
}

TEST(PeerOptions, AreInOrderAndMeanOptionsThatTheAppsOrTheLauncherHave) {
  std::string help;
  parse_options("lenet", std::vector<std::string>{"--help"}, help);
  help += "--np N --hosts LIST --restart N --port N --output FILE "; // of `penstock launch` and other commands
  std::string_view before;
  for (const auto& entry : peer_options()) {
    EXPECT_LE(before, entry.name);
    before = entry.name;
    if (entry.here.empty()) {
      EXPECT_FALSE(entry.words.empty()) << entry.name;
      continue;
    }
    EXPECT_THAT(help, HasSubstr(std::string(entry.here) + " ")) << entry.name;
  }
}

// Who comes from elsewhere types these first.
TEST(PeerOptions, LeadFromTheCommonNamesToOurs) {
  const auto refusal = [](const std::string& name) {
    try {
      std::string help;
      parse_options("vgg16", std::vector<std::string>{name, "1"}, help);
    } catch (const usage_error& fault) {
      return std::string(fault.what());
    }
    return std::string("accepted");
  };
  for (const auto& [theirs, ours] :
       std::vector<std::pair<std::string, std::string>>{{"--batch-size", "--batch"},
                                                        {"--learning-rate", "--lr"},
                                                        {"--wd", "--weight-decay"},
                                                        {"--num-epochs", "--epochs"},
                                                        {"--micro-batch-size", "--microbatches"},
                                                        {"--pipeline-model-parallel-size", "--stages"},
                                                        {"-j", "--loader-threads"},
                                                        {"--num_workers", "--loader-threads"},
                                                        {"--img-size", "--image-size"},
                                                        {"--output-dir", "--checkpoint"},
                                                        {"--resume-from-checkpoint", "--resume"},
                                                        {"--log-dir", "--metrics"},
                                                        {"--max_steps", "--steps"},
                                                        {"--gradient_accumulation_steps", "--microbatches"}})
    EXPECT_THAT(refusal(theirs), HasSubstr("here it is '" + ours + "'")) << theirs;
  for (const char* theirs : {"--no-cuda", "--gpus", "--arch", "-a", "--nproc-per-node", "--fp16", "--print-freq"})
    EXPECT_THAT(refusal(theirs), HasSubstr("there is none: ")) << theirs;
}

TEST_F(CommandLine, AnswersWithItsVersion) {
  EXPECT_FALSE(parse({"--version"}));
  EXPECT_THAT(line_.help_text(), testing::MatchesRegex("penstock [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(CommandLine, NamesOptionFoundAndWanted) {
  EXPECT_EQ(refusal({"--batch", "0"}), "--batch: found '0', wanted a whole number of at least 1");
  EXPECT_EQ(refusal({"--batch", "1.5"}), "--batch: found '1.5', wanted a whole number of at least 1");
  EXPECT_EQ(refusal({"--batch", ""}), "--batch: found '', wanted a whole number of at least 1");
  EXPECT_EQ(refusal({"--stages", "9999999999"}),
            "--stages: found '9999999999', wanted a whole number from 1 to 2147483647");
  EXPECT_EQ(refusal({"--rate", "11"}), "--rate: found '11', wanted a number from 0 to 10");
  EXPECT_EQ(refusal({"--rate", "nan"}), "--rate: found 'nan', wanted a number from 0 to 10");
}

TEST_F(CommandLine, RefusesWordsValuesAndSwitchesOutOfPlace) {
  EXPECT_THAT(refusal({"word"}), HasSubstr("unexpected argument 'word'"));
  EXPECT_THAT(refusal({"--batch", "8", "9"}), HasSubstr("unexpected argument '9'"));
  EXPECT_EQ(refusal({"--batch"}), "--batch: a value is missing");
  EXPECT_EQ(refusal({"--data="}), "--data: a value is missing");
  EXPECT_THAT(refusal({"--quiet=false"}), HasSubstr("it is a switch"));
}

TEST_F(CommandLine, ShowsDefaultsInItsHelpOnce) {
  EXPECT_FALSE(parse({"--help"}));
  const auto help = line_.help_text();
  EXPECT_THAT(help, HasSubstr("Numbers:"));
  EXPECT_THAT(help, HasSubstr("--batch N=32"));
  EXPECT_THAT(help, HasSubstr("--rate X=0.1 "));
  EXPECT_THAT(help, HasSubstr("--stages N "));
  EXPECT_THAT(help, HasSubstr("Stages [1]"));
}

TEST_F(CommandLine, ReportsItsSettingsAsJson) {
  EXPECT_TRUE(parse({"--data", "a\"b", "--quiet"}));
  std::string all;
  for (const auto& s : line_.settings())
    all += s.name + "=" + s.json + ";";
  EXPECT_EQ(all, R"(batch=32;stages=null;rate=0.1;data="a\"b";plugin=[];quiet=true;no-augment=false;)");
}

TEST_F(CommandLine, ReportsAsJsonWhatIsNoUtf8) {
  EXPECT_TRUE(parse({"--data", "caf\xe9", "--plugin", "\xff"}));
  std::string all;
  for (const auto& s : line_.settings())
    if (s.name == "data" || s.name == "plugin") all += s.name + "=" + s.json + ";";
  EXPECT_EQ(all, "data=\"caf\uFFFD\";plugin=[\"\uFFFD\"];");
}

} // namespace
} // namespace penstock::apps
