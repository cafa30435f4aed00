// Everything that is refused: the exit code, one line on stderr that says why, nothing written.
#include "tests/apps/programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace penstock::test {
namespace {

struct refusal {
  std::string name;
  std::vector<std::string> arguments;
  int exit_code = 2;
  std::vector<std::string> says; ///< each must be in the line
};

void PrintTo(const refusal& r, std::ostream* out) {
  *out << r.name;
}

class Refusal : public testing::TestWithParam<refusal> {};

TEST_P(Refusal, IsOneClearLineAndLeavesNothing) {
  const temporary_folder folder;
  const auto& expected = GetParam();
  const auto result = run_process(tiny_lenet(expected.arguments), patience, {.folder = folder.path()});
  EXPECT_EQ(result.exit_code, expected.exit_code) << result.errors;
  ASSERT_EQ(result.error_lines().size(), 1U) << result.errors;
  for (const auto& words : expected.says)
    EXPECT_THAT(result.errors, testing::HasSubstr(words));
  EXPECT_TRUE(folder.empty());
}

std::vector<std::string> with_outputs(std::vector<std::string> arguments) {
  const std::vector<std::string> outputs{"--trace",      "t.pftrace", "--metrics",      "m.jsonl",
                                         "--checkpoint", "ck",        "--save-weights", "w.safetensors"};
  arguments.insert(arguments.end(), outputs.begin(), outputs.end());
  return arguments;
}

// A refused run that was to write everywhere has written nowhere.
const std::vector<refusal> usage_refusals{
    {"UnknownOption", with_outputs({"--bacth", "4"}), 2, {"--bacth", "did you mean '--batch'"}},
    {"UnexpectedWord", with_outputs({"vgg16"}), 2, {"unexpected", "vgg16"}},
    {"MissingValue", with_outputs({"--stages"}), 2, {"--stages: a value is missing"}},
    {"NoNumber", with_outputs({"--batch", "many"}), 2, {"--batch", "'many'", "whole number"}},
    {"NegativeNumber", with_outputs({"--epochs", "-1"}), 2, {"--epochs", "'-1'"}},
    {"NumberTooLarge", with_outputs({"--stages", "99999999999999999999"}), 2, {"--stages", "99999999999999999999"}},
    {"NotANumberRate", with_outputs({"--lr", "nan"}), 2, {"--lr", "'nan'"}},
    {"EmptyValue", with_outputs({"--data="}), 2, {"--data", "missing"}},
    {"ValueOfASwitch", with_outputs({"--nesterov=yes"}), 2, {"--nesterov", "switch"}},
    {"UnknownSchedule", with_outputs({"--schedule", "pipedraem"}), 2, {"pipedraem", "did you mean 'pipedream'"}},
    {"UnknownOptimizer", with_outputs({"--optimizer", "adamv"}), 2, {"adamv", "did you mean 'adam'"}},
    {"UnknownRateSchedule", with_outputs({"--lr-schedule", "cosin"}), 2, {"cosin", "cosine"}},
    {"UnknownExecutor", with_outputs({"--executor", "actor"}), 2, {"--executor", "did you mean 'actors'"}},
    {"UnknownDevice", with_outputs({"--device", "cpv"}), 2, {"--device: ", "'cpv'", "did you mean 'cpu'"}},
    {"UnknownLastBatch", with_outputs({"--last-batch", "dorp"}), 2, {"--last-batch", "'dorp'", "keep or drop"}},
    {"LastBatchIsAll",
     with_outputs({"--last-batch", "drop", "--batch", "100000"}),
     2,
     {"there is no other", "batch 100000"}},
    {"UnknownDataKind", with_outputs({"--data", "fashon-mnist:x"}), 2, {"fashon-mnist", "fashion-mnist"}},
    {"DataWithoutFolder", with_outputs({"--data", "fashion-mnist"}), 2, {"fashion-mnist", "DIR"}},
    {"NoStages", with_outputs({"--stages", "0"}), 2, {"--stages", "'0'"}},
    {"MoreStagesThanLayers", with_outputs({"--stages", "40"}), 2, {"--stages", "40", "12"}},
    {"ReplicaListTooShort", with_outputs({"--stages", "3", "--replicas", "1,2"}), 2, {"--replicas", "2", "3"}},
    {"ReplicasBelowOne", with_outputs({"--replicas", "1,0"}), 2, {"--replicas", "'0'"}},
    {"ReplicasOfAWord", with_outputs({"--replicas", "1,two"}), 2, {"--replicas", "'two'"}},
    {"ReplicasWithAHole", with_outputs({"--replicas", "1,,2"}), 2, {"--replicas", "1,,2"}},
    {"CreditOfZero", with_outputs({"--stages", "2", "--in-flight", "2,0"}), 2, {"in-flight", "0"}},
    {"CreditListTooLong", with_outputs({"--stages", "2", "--in-flight", "3,2,1"}), 2, {"--in-flight", "3", "2"}},
    {"CreditsThatDeadlock", with_outputs({"--stages", "2", "--in-flight", "1,2"}), 2, {"in-flight"}},
    {"UnknownCreditWord", with_outputs({"--in-flight", "loose"}), 2, {"loose", "tight"}},
    {"LagBelowZero", with_outputs({"--update-lag", "-1"}), 2, {"--update-lag", "-1"}},
    {"LagListTooLong", with_outputs({"--stages", "2", "--update-lag", "1,0,1"}), 2, {"--update-lag", "3", "2"}},
    {"LagOfAWord", with_outputs({"--update-lag", "late"}), 2, {"--update-lag", "'late'"}},
    {"LagOfASynchronousSchedule",
     with_outputs({"--schedule", "1f1b", "--update-lag", "1"}),
     2,
     {"--update-lag", "1f1b has no update lag", "pipedream"}},
    {"LagUnderVerticalSync",
     with_outputs({"--schedule", "pipedream-vertical-sync", "--update-lag", "1"}),
     2,
     {"--update-lag", "pipedream-vertical-sync has no update lag"}},
    {"LagOfTwoBuffers",
     with_outputs({"--schedule", "2bw", "--update-lag", "1"}),
     2,
     {"--update-lag", "2bw has no update lag"}},
    {"BatchBelowMicrobatches",
     with_outputs({"--schedule", "gpipe", "--batch", "2", "--microbatches", "4"}),
     2,
     {"--batch", "2", "4"}},
    {"NoChunks", with_outputs({"--schedule", "interleaved", "--chunks", "0"}), 2, {"--chunks", "'0'"}},
    {"ChunksOfAnotherSchedule",
     with_outputs({"--schedule", "1f1b", "--stages", "2", "--chunks", "2"}),
     2,
     {"--chunks: found 2 with --schedule 1f1b, wanted --schedule interleaved"}},
    {"ChunksWithoutLayers",
     with_outputs({"--schedule", "interleaved", "--stages", "2", "--chunks", "7"}),
     2,
     {"--chunks: found 7, which on 2 worker positions is 14 stages, wanted at most 12"}},
    {"UnequalReplicasOfChunks",
     with_outputs({"--schedule", "interleaved", "--replicas", "2,1"}),
     2,
     {"--replicas: found '2,1', wanted one count for all worker positions"}},
    {"CreditsOfChunks",
     with_outputs({"--schedule", "interleaved", "--stages", "2", "--in-flight", "tight"}),
     2,
     {"in-flight of interleaved follows from its warm-up"}},
    {"CutsOfChunks",
     with_outputs({"--schedule", "interleaved", "--stages", "2", "--cuts", "fc1"}),
     2,
     {"--cuts: found 1 layers, wanted 3 for 4 stages"}},
    {"MicrobatchesUnderPipedream", with_outputs({"--microbatches", "2"}), 2, {"pipedream", "2bw"}},
    {"TooFewMicrobatchesFor2bw",
     with_outputs({"--schedule", "2bw", "--stages", "4", "--microbatches", "2"}),
     2,
     {"2bw", "at least 3"}},
    {"DataParallelWithStages", with_outputs({"--schedule", "data-parallel", "--stages", "2"}), 2, {"data-parallel"}},
    {"VerticalSyncWithUnequalReplicas",
     with_outputs({"--schedule", "pipedream-vertical-sync", "--replicas", "2,1"}),
     2,
     {"vertical-sync", "equal"}},
    {"TwoWaysToClip", with_outputs({"--clip-norm", "1", "--clip-stage-norm", "1"}), 2, {"--clip-stage-norm", "both"}},
    {"ClippingAcrossAnAsynchronousPipeline", with_outputs({"--stages", "2", "--clip-norm", "1"}), 2, {"clip"}},
    {"UnknownCut", with_outputs({"--stages", "2", "--cuts", "conv3"}), 2, {"--cuts", "conv3", "did you mean"}},
    {"CutAtTheFirstLayer", with_outputs({"--stages", "2", "--cuts", "conv1"}), 2, {"--cuts", "conv1"}},
    {"CutsOutOfOrder", with_outputs({"--stages", "3", "--cuts", "fc1,conv2"}), 2, {"--cuts", "conv2"}},
    {"TooManyCuts", with_outputs({"--stages", "2", "--cuts", "conv2,fc1"}), 2, {"--cuts", "2", "1"}},
    {"ImageTooSmall", with_outputs({"--image-size", "4"}), 2, {"--image-size: found 4", "28", "conv2", "lenet"}},
    {"MissingPlugin", with_outputs({"--plugin", "./nowhere.so"}), 2, {"nowhere.so"}},
    {"UnknownReplacement", with_outputs({"--replace-layer", "relu=swish"}), 2, {"swish"}},
    {"ResumeWithoutCheckpoint", {"--resume"}, 2, {"--resume", "--checkpoint"}},
    {"CheckpointEveryWithoutFolder", {"--checkpoint-every", "5"}, 2, {"--checkpoint-every"}},
    {"AllowPartialWithoutWeights", with_outputs({"--allow-partial"}), 2, {"--allow-partial", "--weights"}},
    {"WorkersThatLoadData", {"--workers", "4"}, 2, {"--workers", "--plan auto", "--loader-threads"}},
    {"OneFileForTwoOutputs", {"--trace", "x", "--metrics", "./x"}, 2, {"x", "--trace", "--metrics"}},
};

const std::vector<refusal> failures{
    {"MissingDataFolder", with_outputs({"--data", "fashion-mnist:nowhere"}), 1, {"nowhere"}},
    {"MissingImageFolder", with_outputs({"--data", "imagefolder:nowhere"}), 1, {"nowhere"}},
    {"MissingTensors", with_outputs({"--data", "tensors:nowhere.safetensors"}), 1, {"nowhere.safetensors"}},
    {"MissingWeights", with_outputs({"--weights", "nowhere.safetensors"}), 1, {"--weights", "nowhere.safetensors"}},
    {"TraceInNoFolder", {"--trace", "nowhere/t.pftrace"}, 1, {"--trace", "nowhere"}},
    {"TraceInPlaceOfAFolder", {"--trace", "."}, 1, {"--trace", "folder"}},
    {"MetricsInNoFolder", {"--metrics", "nowhere/m.jsonl"}, 1, {"--metrics", "nowhere"}},
    {"WeightsInNoFolder", {"--save-weights", "nowhere/w.safetensors"}, 1, {"--save-weights", "nowhere"}},
    {"GradientsInNoFolder", {"--save-gradients", "nowhere/g.safetensors"}, 1, {"--save-gradients", "nowhere"}},
    {"TraceWhereNothingCanBeMade", {"--trace", "/proc/t.pftrace"}, 1, {"--trace", "/proc"}},
    {"CheckpointBelowAFile", {"--checkpoint", "/dev/null/ck"}, 1, {"--checkpoint", "/dev/null"}},
    {"ResumeFromNothing", {"--checkpoint", "nowhere", "--resume"}, 2, {"nowhere"}},
};

std::string name_of(const testing::TestParamInfo<refusal>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Usage, Refusal, testing::ValuesIn(usage_refusals), name_of);
INSTANTIATE_TEST_SUITE_P(Failure, Refusal, testing::ValuesIn(failures), name_of);

TEST(Refusals, TensorsOfAnotherImageSizeThanAskedForAreNamed) {
  const temporary_folder folder;
  const std::string header = R"({"input":{"dtype":"F32","shape":[1,1,28,28],"data_offsets":[0,3136]},)"
                             R"("target":{"dtype":"I64","shape":[1],"data_offsets":[3136,3144]}} )";
  std::ofstream out(folder / "d.safetensors", std::ios::binary);
  const std::uint64_t length = header.size();
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << header << std::string(3144, '\0');
  out.close();
  const auto result = run_process(tiny_lenet({"--data", "tensors:d.safetensors", "--image-size", "32"}), patience,
                                  {.folder = folder.path()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.errors, testing::AllOf(testing::HasSubstr("--image-size"), testing::HasSubstr("28")));
}

// /dev/full takes no byte. The run ends in order and says so once.
TEST(Refusals, AFullDiskUnderTheMetricsEndsTheRunWithOneLine) {
  const auto result = run_process(tiny_lenet({"--epochs", "50", "--metrics", "/dev/full"}), patience);
  EXPECT_EQ(result.exit_code, 1);
  ASSERT_EQ(result.error_lines().size(), 1U) << result.errors;
  EXPECT_THAT(result.errors, testing::AllOf(testing::HasSubstr("/dev/full"), testing::HasSubstr("No space")));
}

} // namespace
} // namespace penstock::test
