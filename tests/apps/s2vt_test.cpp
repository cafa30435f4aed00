// S2VT as a person runs it: published defaults, training on clips, captions of clips.
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
using words = std::vector<std::string>;

class S2vtApp : public testing::Test {
protected:
  process_result s2vt(const words& arguments) {
    return run_process(program("s2vt", arguments), patience, {.folder = folder_.path(), .variables = {}});
  }

  // Clip n has n + 1 frames of three numbers, one of which tells its caption.
  void write_clips(const std::string& part, const words& captions) {
    std::vector<std::int64_t> first{0};
    std::vector<float> values;
    std::string lines;
    for (std::size_t clip = 0; clip < captions.size(); ++clip) {
      for (std::size_t frame = 0; frame <= clip; ++frame)
        for (std::size_t i = 0; i < 3; ++i)
          values.push_back(i == clip % 3 ? 1.0F : 0.0F);
      first.push_back(first.back() + static_cast<std::int64_t>(clip) + 1);
      lines += std::to_string(clip) + "\t" + std::to_string(clip + 1) + "\t" + captions[clip] + "\n";
    }
    auto frames = tensor::allocate(pool_, dtype::f32, {first.back(), 3}, memory_use::scratch);
    std::copy(values.begin(), values.end(), frames.data<float>());
    auto places = tensor::allocate(pool_, dtype::i64, {static_cast<std::int64_t>(first.size())}, memory_use::scratch);
    std::copy(first.begin(), first.end(), places.data<std::int64_t>());
    write_safetensors(folder_ / (part + ".safetensors"), {{"frames", frames}, {"first_frames", places}});
    testing_support::write_file(folder_ / (part + ".tsv"), lines);
  }

  testing_support::temporary_folder folder_;
  memory_pool pool_;
};

TEST_F(S2vtApp, DefaultsAreThePublishedSolvers) {
  const auto config = [&](words more) {
    more.emplace_back("--print-config");
    const auto run = s2vt(more);
    return run.exit_code == 0 ? json::parse(run.output) : json(run.errors);
  };
  const auto usual = config({});
  EXPECT_EQ(usual.at("batch"), 32);
  EXPECT_EQ(usual.at("optimizer"), "sgd");
  EXPECT_NEAR(usual.at("lr").get<double>(), 0.01, 1e-9);
  EXPECT_NEAR(usual.at("momentum").get<double>(), 0.9, 1e-7);
  EXPECT_EQ(usual.at("lr-schedule"), "step:every=20000,gamma=0.5");
  EXPECT_EQ(config({"--lr-schedule", "constant"}).at("lr-schedule"), "constant");
}

TEST_F(S2vtApp, LearnsCaptionsAndWritesThem) {
  const words captions{"A cat sits", "a dog", "two Birds sing a song"};
  write_clips("train", captions);
  write_clips("test", captions);
  const auto run = s2vt({"--data", "clips:.", "--width", "0.05", "--batch", "3", "--epochs", "60", "--eval-every", "0",
                         "--optimizer", "adam", "--lr", "0.02", "--stages", "2", "--save-weights", "w.safetensors"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr("perplexity"));
  const words asked{"--caption", ".", "--weights", "w.safetensors", "--width", "0.05"};
  for (const words& more : {words{}, words{"--batch", "2"}, words{"--stages", "3", "--threads", "1"}}) {
    auto all = asked;
    all.insert(all.end(), more.begin(), more.end());
    const auto found = s2vt(all);
    EXPECT_EQ(found.exit_code, 0) << found.errors;
    EXPECT_EQ(found.output, "a cat sits\na dog\ntwo birds sing a song\n");
  }
  auto shorter = asked;
  shorter.insert(shorter.end(), {"--max-words", "2"});
  EXPECT_EQ(s2vt(shorter).output, "a cat\na dog\ntwo birds\n");
}

TEST_F(S2vtApp, BadInputIsRefusedInOneLine) {
  write_clips("train", {"a cat", "a dog"});
  testing_support::write_file(folder_ / "w.safetensors", "none");
  for (const auto& [arguments, says] : std::vector<std::pair<words, std::string>>{
           {{"--data", "clips:.", "--frame-size", "5"}, "frames are"},
           {{"--data", "clips:.", "--vocabulary", "3"}, "--vocabulary: found 3, wanted at least the 5 words of --data"},
           {{"--data", "clips:.", "--max-length", "9"}, "found a limit of 9 steps"},
           {{"--data", "clips:nowhere"}, "nowhere"},
           {{"--data", "clips:train.tsv"}, "wanted a folder or files that end in .safetensors"},
           {{"--frame-size", "none"}, "--frame-size: found 'none'"},
           {{"--caption", "."}, "--weights: wanted"},
           {{"--caption", "nowhere", "--weights", "w.safetensors"}, "nowhere"},
           {{"--caption", ".", "--weights", "w.safetensors", "--vocabulary", "4"}, "wanted at least the 5 words"},
           {{"--caption", ".", "--weights", "w.safetensors"}, "w.safetensors"}}) {
    const auto refused = s2vt(arguments);
    EXPECT_NE(refused.exit_code, 0) << says;
    ASSERT_EQ(refused.error_lines().size(), 1U) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr(says));
  }
}

} // namespace
} // namespace penstock::test
