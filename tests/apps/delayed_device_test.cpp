// The real programs on the delayed device, which a plug-in brings: the bits of the reference loops, in one process and
// in two, with a plug-in's layers, and through a checkpoint.
#include "tests/apps/programs.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace penstock::test {
namespace {

class OnTheDelayedDevice : public ::testing::Test {
public:
  std::vector<std::string> lenet(const std::string& metrics, const std::vector<std::string>& more) const {
    auto all = tiny_lenet({"--epochs", "2", "--momentum", "0.9", "--metrics", folder / metrics});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> delayed(const std::string& metrics, const std::vector<std::string>& more = {}) const {
    auto all = lenet(metrics, more);
    all.insert(all.end(), {"--plugin", DELAYED_PLUGIN, "--device", "delayed"});
    return all;
  }
  nlohmann::json summary(const std::vector<std::string>& command, const std::string& metrics) const {
    const auto result = run_process(command, patience);
    EXPECT_EQ(result.exit_code, 0) << result.errors << result.output;
    const auto lines = lines_of(read_text(folder / metrics));
    return lines.empty() ? nlohmann::json{} : nlohmann::json::parse(lines.back());
  }
  static void expect_equal(const nlohmann::json& found, const nlohmann::json& wanted) {
    for (const auto* what : {"weights_sha256", "state_sha256", "evaluation", "library"})
      EXPECT_EQ(found.at(what), wanted.at(what)) << what;
  }
  temporary_folder folder;
};

TEST_F(OnTheDelayedDevice, TrainingHasTheBitsOfTheReferenceLoops) {
  const auto wanted = summary(lenet("loops.jsonl", {"--stages", "2", "--reference-kernels"}), "loops.jsonl");
  expect_equal(summary(delayed("one.jsonl", {"--stages", "2"}), "one.jsonl"), wanted);
  expect_equal(summary(delayed("oracle.jsonl", {"--stages", "2", "--executor", "oracle"}), "oracle.jsonl"), wanted);
}

TEST_F(OnTheDelayedDevice, TwoProcessesHaveTheBitsOfTheReferenceLoops) {
  const std::vector<std::string> replicated{"--replicas", "2,1", "--schedule", "1f1b", "--microbatches", "2"};
  for (const auto& more : {std::vector<std::string>{"--stages", "2"}, replicated}) {
    auto loops = more;
    loops.emplace_back("--reference-kernels");
    const auto wanted = summary(lenet("loops.jsonl", loops), "loops.jsonl");
    auto job = program("penstock", {"launch", "-np", "2", "--"});
    auto rank = delayed("two.jsonl", more);
    rank.insert(rank.end(), {"--transport", "shm", "--trace", folder / "t.pftrace"});
    job.insert(job.end(), rank.begin(), rank.end());
    expect_equal(summary(job, "two.jsonl"), wanted);
    const auto checked = run_process(program("penstock", {"trace", "check", folder / "t.pftrace"}), patience);
    EXPECT_EQ(checked.exit_code, 0) << checked.output << checked.errors;
  }
}

TEST_F(OnTheDelayedDevice, LayersOfAPlugInComputeThereByTheirOwnLoops) {
  const std::vector<std::string> swish{"--plugin", CUSTOM_LAYER, "--replace-layer", "relu=swish"};
  auto loops = swish;
  loops.emplace_back("--reference-kernels");
  expect_equal(summary(delayed("swish.jsonl", swish), "swish.jsonl"),
               summary(lenet("loops.jsonl", loops), "loops.jsonl"));
}

TEST_F(OnTheDelayedDevice, ACheckpointOfItIsOneOfTheReferenceLoops) {
  const std::vector<std::string> to_folder{"--checkpoint", folder / "ck", "--checkpoint-every", "3"};
  auto first = to_folder;
  first.insert(first.end(), {"--steps", "6"});
  summary(delayed("first.jsonl", first), "first.jsonl");
  std::filesystem::copy(folder / "ck", folder / "loops", std::filesystem::copy_options::recursive);
  const auto wanted = summary(lenet("loops.jsonl", {"--reference-kernels", "--checkpoint", folder / "loops",
                                                    "--checkpoint-every", "3", "--resume"}),
                              "loops.jsonl");
  auto second = to_folder;
  second.emplace_back("--resume");
  expect_equal(summary(delayed("second.jsonl", second), "second.jsonl"), wanted);
}

TEST_F(OnTheDelayedDevice, RanksWhoseDevicesComputeByAnotherLibraryAreRefused) {
  auto job = program("penstock", {"launch", "-np", "2", "--"});
  const auto rank = lenet("two.jsonl", {"--stages", "2", "--plugin", DELAYED_PLUGIN, "--device", "patchwork"});
  job.insert(job.end(), rank.begin(), rank.end());
  const auto result = run_process(job, patience);
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_NE(result.errors.find("the library of --device patchwork differs: rank 0 has library 0, rank 1 has library 1"),
            std::string::npos)
      << result.errors;
}

} // namespace
} // namespace penstock::test
