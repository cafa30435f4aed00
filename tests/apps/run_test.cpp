// The apps as a person runs them: help, configuration, plan, progress, metrics, summary.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

namespace penstock::test {
namespace {

TEST(Run, SaysWhatIsDoneToImagesAndWhenThreadsAreMoreThanCores) {
  const std::string data = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no " << data << " (Debian: dataset-fashion-mnist)";
  const auto run = run_process(
      program("vgg16", {"--data", "fashion-mnist:" + data, "--image-size", "32", "--threads", "999", "--dry-run"}),
      patience);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, testing::HasSubstr("images: pixels / 255, mean 0.286, deviation 0.353; grey repeated to 3 "
                                             "channels; resize: bilinear with antialiasing, 28x28 to 32x32; "
                                             "augmentation: none\n"));
  EXPECT_THAT(run.output, testing::HasSubstr("note: --threads 999: 999 compute threads take turns on "));
}

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::vector<json> events_of(const std::filesystem::path& file) {
  std::vector<json> events;
  for (const auto& line : lines_of(read_text(file)))
    events.push_back(json::parse(line));
  return events;
}

class EveryApp : public testing::TestWithParam<const char*> {};

TEST_P(EveryApp, ShowsItsPlan) {
  const auto result =
      run_process(program(GetParam(), {"--dry-run", "--stages", "2", "--width", "0.1", "--steps", "7"}), patience);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr(GetParam()), HasSubstr("schedule pipedream"), HasSubstr("7 steps")));
}

INSTANTIATE_TEST_SUITE_P(Apps, EveryApp,
                         testing::Values("lenet", "alexnet", "vgg11", "vgg16", "resnet18", "resnet50", "inception_v3",
                                         "vit_b_16"),
                         [](const auto& app) { return std::string(app.param); });

TEST(Help, ListsEveryOptionOfTheDesign) {
  const auto result = run_process(program("lenet", {"--help"}), patience);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.errors, "");
  for (const char* option : {"--data",
                             "--image-size",
                             "--classes",
                             "--width",
                             "--dropout",
                             "--batch",
                             "--microbatches",
                             "--schedule",
                             "--in-flight",
                             "--window",
                             "--stages",
                             "--replicas",
                             "--epochs",
                             "--steps",
                             "--lr",
                             "--lr-schedule",
                             "--optimizer",
                             "--momentum",
                             "--nesterov",
                             "--weight-decay",
                             "--label-smoothing",
                             "--seed",
                             "--no-replica-lr-scaling",
                             "--no-decay-norm-bias",
                             "--clip-norm",
                             "--eval-every",
                             "--eval-batch",
                             "--eval-only",
                             "--dry-run",
                             "--print-config",
                             "--threads",
                             "--weights",
                             "--save-weights",
                             "--save-gradients",
                             "--allow-partial",
                             "--checkpoint",
                             "--checkpoint-every",
                             "--resume",
                             "--trace",
                             "--metrics",
                             "--executor",
                             "--plugin",
                             "--cuts",
                             "--loader-threads",
                             "--no-augment",
                             "--synthetic-samples",
                             "--stall-timeout",
                             "--keep-going-on-nonfinite",
                             "--device",
                             "--reference-kernels"})
    EXPECT_THAT(result.output, HasSubstr("  " + std::string(option))) << option;
}

TEST(PrintConfig, IsOneJsonObjectWithWhatWasGivenAndTheDefaults) {
  const auto result = run_process(
      program("resnet18", {"--print-config", "--replicas", "2,1", "--lr", "0.1", "--no-augment"}), patience);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto config = json::parse(result.output);
  EXPECT_EQ(config.at("model"), "resnet18");
  EXPECT_EQ(config.at("replicas"), "2,1");
  EXPECT_EQ(config.at("stages"), 2);
  EXPECT_EQ(config.at("lr"), 0.1);
  EXPECT_EQ(config.at("no-augment"), true);
  EXPECT_EQ(config.at("batch"), 32);
  EXPECT_EQ(config.at("schedule"), "pipedream");
  EXPECT_TRUE(config.at("trace").is_null());
}

TEST(DryRun, WritesNothing) {
  const temporary_folder folder;
  const auto result = run_process(tiny_lenet({"--dry-run", "--trace", "t", "--metrics", "m", "--checkpoint", "c"}),
                                  patience, {.folder = folder.path()});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(folder.empty());
}

TEST(Run, SaysThatTheDataIsSyntheticWhenNoneWasGiven) {
  const auto without = run_process(tiny_lenet({"--steps", "1"}), patience);
  EXPECT_THAT(without.output, HasSubstr("no --data given"));
  const auto with = run_process(tiny_lenet({"--steps", "1", "--data", "synthetic"}), patience);
  EXPECT_EQ(with.exit_code, 0) << with.errors;
  EXPECT_THAT(with.output, testing::Not(HasSubstr("no --data given")));
}

TEST(Metrics, AreOneJsonObjectALineAndEndWithTheSummary) {
  const temporary_folder folder;
  const auto result = run_process(tiny_lenet({"--stages", "2", "--epochs", "2", "--metrics", "m.jsonl"}), patience,
                                  {.folder = folder.path()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto events = events_of(folder / "m.jsonl");
  ASSERT_EQ(events.size(), 16U + 2U + 1U); // 64 samples in eights, twice
  std::int64_t steps = 0;
  std::int64_t evaluations = 0;
  for (const auto& event : events) {
    if (event.at("event") == "step") {
      EXPECT_EQ(event.at("step"), ++steps);
      EXPECT_EQ(event.at("epoch"), 1 + (steps - 1) / 8); // of an evaluation too: the first is 1
      EXPECT_EQ(event.at("lr").dump(), "0.01");          // and not 0.009999999776
      EXPECT_TRUE(event.at("loss").is_number_float());
      EXPECT_TRUE(event.at("samples_per_s").is_number());
    }
    if (event.at("event") == "eval") {
      EXPECT_EQ(event.at("epoch"), ++evaluations);
      EXPECT_TRUE(event.at("loss").is_number_float());
      EXPECT_TRUE(event.at("accuracy").is_number());
    }
  }
  EXPECT_EQ(steps, 16);
  EXPECT_EQ(evaluations, 2);
  const auto& summary = events.back();
  EXPECT_EQ(summary.at("event"), "summary");
  EXPECT_EQ(summary.at("end"), "finished");
  EXPECT_EQ(summary.at("steps"), 16);
  EXPECT_EQ(summary.at("schedule"), "pipedream");
  EXPECT_EQ(summary.at("weights_sha256").get<std::string>().size(), 64U);
  EXPECT_EQ(summary.at("state_sha256").get<std::string>().size(), 64U);
  EXPECT_EQ(summary.at("peak_memory_bytes").size(), 2U);
  EXPECT_GT(summary.at("peak_memory_bytes")[0], 0);
  EXPECT_EQ(summary.at("in_flight"), json({2, 1}));
  EXPECT_EQ(summary.at("drains").back(), 16);
  EXPECT_EQ(summary.at("threads"), 1);
  for (const char* key : {"samples_per_s", "steady_samples_per_s", "instruction_set", "library", "microbatches"})
    EXPECT_TRUE(summary.contains(key)) << key;
  EXPECT_THAT(result.output, HasSubstr(summary.at("weights_sha256").get<std::string>()));
}

// Enough to run it again and to judge it, without the command line that made it.
TEST(Metrics, TheSummaryTellsWhatWasRunWhenAndHowLongEachPartTook) {
  const temporary_folder folder;
  const auto result =
      run_process(tiny_lenet({"--epochs", "2", "--lr", "0.1", "--lr-schedule", "cosine,warmup=2", "--seed", "7",
                              "--weight-decay", "0.0005", "--checkpoint", "ck", "--metrics", "m.jsonl"}),
                  patience, {.folder = folder.path()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto summary = events_of(folder / "m.jsonl").back();
  EXPECT_THAT(summary.at("version").get<std::string>(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(summary.at("model").get<std::string>(), testing::StartsWith("lenet image_size=28 "));
  EXPECT_EQ(summary.at("input"), json({{"data", "synthetic"}, {"train_samples", 64}, {"test_samples", 16}}));
  EXPECT_EQ(summary.at("batch"), 8);
  EXPECT_EQ(summary.at("epochs"), 2);
  EXPECT_EQ(summary.at("optimizer"), "sgd");
  EXPECT_EQ(summary.at("lr").dump(), "0.1");
  EXPECT_EQ(summary.at("lr_schedule"), "cosine,warmup=2");
  EXPECT_EQ(summary.at("momentum").dump(), "0.9");
  EXPECT_EQ(summary.at("weight_decay").dump(), "0.0005");
  EXPECT_EQ(summary.at("seed"), 7);
  EXPECT_EQ(summary.at("processes"), 1);
  EXPECT_EQ(summary.at("total_steps"), 16);
  EXPECT_EQ(summary.at("evaluated_after"), 16);
  for (const char* time : {"started", "ended"})
    EXPECT_THAT(summary.at(time).get<std::string>(), testing::MatchesRegex("20..-..-..T..:..:..Z"));
  EXPECT_LE(summary.at("started").get<std::string>(), summary.at("ended").get<std::string>());
  double seconds = 0;
  for (const char* part : {"preparing", "training", "evaluating", "saving"}) {
    EXPECT_GT(summary.at("seconds_by_part").at(part), 0) << part;
    seconds += summary.at("seconds_by_part").at(part).get<double>();
  }
  EXPECT_GE(seconds, summary.at("seconds").get<double>());
}

TEST(Metrics, TheSummaryTellsWhatIsDoneToImages) {
  const std::string data = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no " << data << " (Debian: dataset-fashion-mnist)";
  const temporary_folder folder;
  const auto result = run_process(program("lenet", {"--data", "fashion-mnist:" + data, "--image-size", "32", "--steps",
                                                    "1", "--eval-every", "-1", "--metrics", "m.jsonl"}),
                                  patience, {.folder = folder.path()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto input = events_of(folder / "m.jsonl").back().at("input");
  EXPECT_EQ(input.at("train_samples"), 60000);
  EXPECT_EQ(input.at("mean").dump(), "[0.286]");
  EXPECT_EQ(input.at("deviation").dump(), "[0.353]");
  EXPECT_EQ(input.at("channels"), "grey");
  EXPECT_EQ(input.at("resize"), "bilinear with antialiasing, 28x28 to 32x32");
  EXPECT_EQ(input.at("augmentation"), "none");
}

TEST(Summary, NamesWhatWasWritten) {
  const temporary_folder folder;
  const auto result = run_process(tiny_lenet({"--steps", "4", "--trace", "t.pftrace", "--save-weights", "w.safetensors",
                                              "--save-gradients", "g.safetensors", "--checkpoint", "ck"}),
                                  patience, {.folder = folder.path()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  for (const char* path : {"t.pftrace", "w.safetensors", "g.safetensors", "ck"}) {
    EXPECT_THAT(result.output, HasSubstr(path));
    EXPECT_TRUE(std::filesystem::exists(folder / path)) << path;
  }
}

TEST(EvalOnly, ReportsTheTestSetAndTrainsNothing) {
  const auto result = run_process(tiny_lenet({"--eval-only"}), patience);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("evaluation only, of 16 samples"), HasSubstr("done: 16 samples evaluated"),
                                   HasSubstr("test: loss"), testing::Not(HasSubstr(" 0 samples/s"))));
}

TEST(EvalOnly, EvaluatesWhateverIsSaidOfTraining) {
  for (const char* every : {"-1", "0", "7"}) {
    const auto result = run_process(tiny_lenet({"--eval-only", "--eval-every", every}), patience);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("done: 16 samples evaluated")) << every;
  }
}

TEST(Output, FilesMayHaveNamesOfAnyBytes) {
  const temporary_folder folder;
  const std::string name = "caf\xe9\nx"; // Latin-1, and a line end
  const process_options there{.folder = folder.path()};
  const auto result = run_process(tiny_lenet({"--checkpoint", name, "--save-weights", name + ".w", "--trace",
                                              name + ".t", "--metrics", name + ".m", "--save-gradients", name + ".g"}),
                                  patience, there);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  for (const char* ending : {"", ".w", ".t", ".m", ".g"})
    EXPECT_TRUE(std::filesystem::exists(folder / (name + ending))) << ending;
  const auto again = run_process(tiny_lenet({"--checkpoint", name, "--resume", "--eval-only"}), patience, there);
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  const auto from = run_process(tiny_lenet({"--weights", name + ".w", "--eval-only"}), patience, there);
  EXPECT_EQ(from.exit_code, 0) << from.errors;
  const auto shown = run_process(tiny_lenet({"--weights", name + ".w", "--print-config"}), patience, there);
  EXPECT_EQ(json::parse(shown.output).at("weights"), "caf\uFFFD\nx.w");
}

bool has_pseudo_terminals() {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  const bool usable = master >= 0 && ::grantpt(master) == 0 && ::unlockpt(master) == 0;
  if (master >= 0) ::close(master);
  return usable;
}

TEST(Progress, IsOneLiveLineOnATerminalAndPlainLinesElsewhere) {
  if (!has_pseudo_terminals()) GTEST_SKIP() << "this system has no pseudo-terminals (/dev/ptmx)";
  const auto live = run_process(tiny_lenet({"--epochs", "3"}), patience, {.terminal = true});
  EXPECT_EQ(live.exit_code, 0) << live.errors;
  EXPECT_THAT(live.output, HasSubstr("epoch 3/3"));
  EXPECT_THAT(live.output, HasSubstr("test: loss"));
  const auto plain = run_process(tiny_lenet({"--epochs", "3"}), patience);
  EXPECT_THAT(plain.output, HasSubstr("epoch 3/3"));
  EXPECT_THAT(plain.output, testing::Not(HasSubstr("\r")));
  EXPECT_THAT(plain.output, testing::Not(HasSubstr("\x1b")));
}

TEST(Progress, CountsEpochsByTheStepsThatAreAsked) {
  const auto result = run_process(tiny_lenet({"--steps", "20"}), patience); // of 8 an epoch
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("epoch 1/3  step  8/20"), HasSubstr("epoch 3/3  step 20/20")));
}

TEST(Summary, OfAResumedRunTellsWhatThisLegDid) {
  const temporary_folder folder;
  const process_options here{.folder = folder.path()};
  ASSERT_EQ(run_process(tiny_lenet({"--steps", "6", "--checkpoint", "c"}), patience, here).exit_code, 0);
  const auto rest = run_process(tiny_lenet({"--steps", "10", "--checkpoint", "c", "--resume"}), patience, here);
  ASSERT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(rest.output, HasSubstr("done: 10 steps, 4 of them in "));
}

TEST(Run, TakesTheShapeOfATensorsFile) {
  const temporary_folder folder;
  ASSERT_EQ(run_process(program("penstock", {"version"}), patience).exit_code, 0);
  const std::string header = R"({"input":{"dtype":"F32","shape":[4,3,32,32],"data_offsets":[0,49152]},)"
                             R"("target":{"dtype":"I64","shape":[4],"data_offsets":[49152,49184]}})";
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::ofstream(folder / "d.safetensors", std::ios::binary) << bytes + header + std::string(49184, '\0');
  const auto result =
      run_process(program("lenet", {"--data", "tensors:d.safetensors", "--batch", "2", "--metrics", "m.jsonl"}),
                  patience, {.folder = folder.path()});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(events_of(folder / "m.jsonl").back().at("steps"), 2);
}

} // namespace
} // namespace penstock::test
