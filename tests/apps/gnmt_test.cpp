// GNMT as a person runs it: defaults of PipeDream's run, weights in and out, ties.
#include "kernels/safetensors.hpp"
#include "tests/apps/programs.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace penstock::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class GnmtApp : public testing::Test {
protected:
  process_result gnmt(std::vector<std::string> more, const std::string& name = "gnmt8") {
    std::vector<std::string> all{"--width", "0.01", "--vocabulary",        "13", "--length",     "6",
                                 "--batch", "4",    "--synthetic-samples", "8",  "--eval-every", "-1"};
    all.insert(all.end(), more.begin(), more.end());
    return run_process(program(name, all), patience, {.folder = folder_.path(), .variables = {}});
  }
  named_tensors weights(const std::string& file) { return read_safetensors(folder_ / file, pool_).tensors; }
  static std::string sha(const process_result& run) {
    const auto at = run.output.find("weights_sha256");
    return at == std::string::npos ? run.errors : run.output.substr(at, 16 + 64);
  }

  testing_support::temporary_folder folder_;
  memory_pool pool_;
};

TEST_F(GnmtApp, DefaultsArePipeDreamsRun) {
  const auto config = [&](std::vector<std::string> more) {
    more.emplace_back("--print-config");
    const auto run = run_process(program("gnmt16", more), patience);
    return run.exit_code == 0 ? json::parse(run.output) : json(run.errors);
  };
  const auto usual = config({});
  EXPECT_EQ(usual.at("batch"), 64);
  EXPECT_EQ(usual.at("optimizer"), "adam");
  EXPECT_NEAR(usual.at("lr").get<double>(), 3e-4, 1e-9);
  EXPECT_NEAR(usual.at("label-smoothing").get<double>(), 0.1, 1e-7);
  EXPECT_NEAR(config({"--optimizer", "adamw"}).at("lr").get<double>(), 1e-3, 1e-9);
  EXPECT_NEAR(config({"--optimizer", "sgd"}).at("lr").get<double>(), 1e-2, 1e-9);
  EXPECT_NEAR(config({"--lr", "0.5"}).at("lr").get<double>(), 0.5, 1e-9);
  EXPECT_EQ(config({"--label-smoothing", "0"}).at("label-smoothing"), 0);
}

TEST_F(GnmtApp, TrainsThroughStagesWithTwoLengths) {
  const auto run = gnmt({"--target-length", "4", "--stages", "3", "--epochs", "2", "--eval-every", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("perplexity"));
  EXPECT_EQ(gnmt({"--layers", "3", "--steps", "1"}, "gnmt_large").exit_code, 0);
}

TEST_F(GnmtApp, ATiedTableIsSavedUnderBothNamesAndReadUnderEither) {
  const std::vector<std::string> tied{"--tied", "--schedule", "1f1b", "--stages", "2", "--microbatches", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), tied.begin(), tied.end());
    return gnmt(more);
  };
  ASSERT_EQ(with({"--steps", "2", "--save-weights", "both.safetensors"}).exit_code, 0);
  auto both = weights("both.safetensors");
  const std::string encoder = "encoder.embedder.weight", decoder = "decoder.embedder.weight";
  ASSERT_TRUE(both.contains(encoder) && both.contains(decoder));
  auto lone = both;
  lone.erase(encoder);
  write_safetensors(folder_ / "lone.safetensors", lone);
  const auto again = with({"--steps", "2", "--weights", "both.safetensors"}),
             from_lone = with({"--steps", "2", "--weights", "lone.safetensors"});
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(sha(again), sha(from_lone));
  const auto untied = gnmt({"--stages", "2", "--steps", "2", "--weights", "lone.safetensors"});
  EXPECT_EQ(untied.exit_code, 0) << untied.errors;
}

TEST_F(GnmtApp, ATieThatStagesUpdateApartIsRefused) {
  const auto split = gnmt({"--tied", "--stages", "3"});
  EXPECT_EQ(split.exit_code, 2);
  ASSERT_EQ(split.error_lines().size(), 1U) << split.errors;
  EXPECT_THAT(split.errors, testing::AllOf(HasSubstr("encoder.embedder.weight"), HasSubstr("--untied"),
                                           HasSubstr("1f1b"), HasSubstr("2bw")));
  EXPECT_EQ(gnmt({"--tied", "--stages", "2", "--cuts", "decoder.rnn_layers.1.concat", "--steps", "2"}).exit_code, 0);
}

TEST_F(GnmtApp, IsProfiledAtItsDatasLengthsAndPlanned) {
  const auto penstock = [&](const std::vector<std::string>& words) {
    return run_process(program("penstock", words), patience, {.folder = folder_.path(), .variables = {}});
  };
  std::string lines;
  for (int i = 0; i < 24; ++i)
    lines += i % 2 == 0 ? "a b\tb a\n" : "a b a b a b a b\tb a b a b\n";
  testing_support::write_file(folder_ / "pairs.tsv", lines);
  testing_support::write_file(folder_ / "words.txt", "<unk>\n<eos>\na\nb\n");
  const auto profiled = penstock({"profile",     "gnmt_large", "--layers",  "2",         "--width",
                                  "0.01",        "--batch",    "4",         "--samples", "4",
                                  "--seconds",   "0",          "--repeats", "3",         "--warmup",
                                  "0",           "--workers",  "1",         "--data",    "parallel:pairs.tsv",
                                  "--tokenizer", "words.txt",  "-o",        "p.json"});
  ASSERT_EQ(profiled.exit_code, 0) << profiled.errors;
  EXPECT_THAT(profiled.output, testing::ContainsRegex("lengths: [0-9]+ x [0-9]+ in [0-9]+%, "));
  const auto planned = penstock({"plan", "p.json", "--workers", "2", "--bandwidth", "1e9", "--stages", "2"});
  EXPECT_EQ(planned.exit_code, 0) << planned.errors;
  EXPECT_EQ(penstock({"profile", "gnmt8", "--data", "parallel:nowhere.tsv", "--tokenizer", "words.txt"}).exit_code, 1);
}

// GNMT-8's profile was made with 32 sentences of 48 tokens, GNMT-16's with 128 of 25.
TEST_F(GnmtApp, PipeDreamsProfilesAreScaledToARun) {
  const auto seconds = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"plan",
                                   SOURCES "/tests/planner/pipedream_profiles/gnmt.txt",
                                   "--graph-samples",
                                   "32",
                                   "--batch",
                                   "64",
                                   "--workers",
                                   "4",
                                   "--bandwidth",
                                   "10e9",
                                   "--schedule",
                                   "pipedream",
                                   "-o",
                                   "plan.json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto run = run_process(program("penstock", words), patience, {.folder = folder_.path(), .variables = {}});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    const auto plan = json::parse(testing_support::read_file(folder_ / "plan.json"));
    return plan.at("prediction").at("step_seconds").get<double>();
  };
  const auto as_it_is = seconds({"--replicas", "1,1,1,1"});
  const auto scaled = seconds({"--replicas", "1,1,1,1", "--profile-scale", "0.5"});
  EXPECT_LT(scaled, 0.75 * as_it_is);
  EXPECT_GT(scaled, 0.25 * as_it_is);
}

TEST_F(GnmtApp, BadInputIsRefusedInOneLine) {
  for (const auto& [arguments, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--vocabulary", "0"}, "--vocabulary"},
           {{"--target-length", "many"}, "--target-length: found 'many'"},
           {{"--dropout-places", "mlpref"}, "did you mean 'mlperf'"},
           {{"--weights", "nowhere.safetensors"}, "nowhere.safetensors"}}) {
    const auto refused = gnmt(arguments);
    EXPECT_NE(refused.exit_code, 0) << says;
    ASSERT_EQ(refused.error_lines().size(), 1U) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr(says));
  }
}

} // namespace
} // namespace penstock::test
