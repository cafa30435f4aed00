// Clips: frames first, then the caption one step behind itself; what is cut; files that are refused.
#include "apps/data/clip_frames.hpp"
#include "apps/data/clips.hpp"
#include "kernels/check.hpp"
#include "kernels/safetensors.hpp"
#include "tests/data/loaded.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using test::loaded;
using test::rows;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct clip_folder {
  testing_support::temporary_folder folder;
  memory_pool pool;

  /// u8 frames of two pixels: 10 n and 10 n + 1 of the n-th of all.
  void frames(const std::string& part, const std::vector<std::int64_t>& first_frames, std::int64_t pixels = 2) {
    auto values = tensor::allocate(pool, dtype::u8, {first_frames.back(), 1, pixels}, memory_use::scratch);
    for (std::int64_t i = 0; i < values.elements(); ++i)
      values.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(10 * (i / pixels) + i % pixels);
    write(part, values, first_frames);
  }
  void write(const std::string& part, const tensor& values, const std::vector<std::int64_t>& first_frames) {
    const auto first =
        tensor::allocate(pool, dtype::i64, {static_cast<std::int64_t>(first_frames.size())}, memory_use::scratch);
    std::copy(first_frames.begin(), first_frames.end(), first.data<std::int64_t>());
    write_safetensors(folder / (part + ".safetensors"), {{"frames", values}, {"first_frames", first}});
  }
  void captions(const std::string& part, const std::string& lines) const {
    testing_support::write_file(folder / (part + ".tsv"), lines);
  }
  std::string path() const { return folder.path().string(); }
  std::string path(const std::string& name) const { return (folder / name).string(); }

  std::vector<std::vector<float>> numbers(const actors::dataset& data, const std::string& input) {
    const auto list = data.minibatches({.batch = 8, .training = false});
    const auto facts = list->facts(0);
    std::vector<tensor> tensors;
    std::size_t place = 0;
    for (const auto& i : data.inputs()) {
      if (i.name == input) place = tensors.size();
      tensors.push_back(tensor::allocate(pool, i.spec.type, actors::dims_of(i, data.extents(), facts, facts.samples),
                                         memory_use::scratch));
    }
    list->load(0, 0, tensors);
    std::vector<std::vector<float>> found;
    const auto width = tensors[place].elements() / facts.samples;
    for (std::int64_t row = 0; row < facts.samples; ++row)
      found.emplace_back(tensors[place].data<float>() + row * width, tensors[place].data<float>() + (row + 1) * width);
    return found;
  }
};

TEST(Clips, AreUnrolledWithTheirCaptionsBehindThem) {
  clip_folder at;
  at.frames("train", {0, 2, 3});
  at.captions("train", "1\t1\tA  dog RUNS a\r\n0\t2\ta cat\n");
  const auto pair = open_clips(at.path(), {.lengths = {.bucket_width = 8}});
  EXPECT_EQ(pair.test, nullptr);
  EXPECT_THAT(pair.train->extents(), ElementsAre("time"));
  EXPECT_THAT(pair.train->counts(), ElementsAre("samples", "tokens"));
  const auto list = pair.train->minibatches({.batch = 8, .training = false});
  ASSERT_EQ(list->per_epoch(), 1);
  EXPECT_EQ(list->facts(0).counts[1], 5 + 3) << "words and ends";
  EXPECT_EQ(list->facts(0).extents[0], 8);
  // a 2, dog 3, runs 4, cat 5
  const auto values = loaded(*pair.train, *list, 0);
  EXPECT_EQ(values.at("words"), (rows{{0, 0, 2, 3, 4, 2, 0, 0}, {0, 0, 0, 2, 5, 0, 0, 0}}));
  EXPECT_EQ(values.at("labels"), (rows{{-1, 2, 3, 4, 2, 0, -1, -1}, {-1, -1, 2, 5, 0, -1, -1, -1}}));
  using floats = std::vector<std::vector<float>>;
  EXPECT_EQ(at.numbers(*pair.train, "stage"), (floats{{0, 1, 1, 1, 1, 1, 0, 0}, {0, 0, 1, 1, 1, 0, 0, 0}}));
  EXPECT_EQ(at.numbers(*pair.train, "continues"), (floats{{0, 1, 1, 1, 1, 1, 0, 0}, {0, 1, 1, 1, 1, 0, 0, 0}}));
  const auto frames = at.numbers(*pair.train, "frames");
  EXPECT_EQ(std::vector<float>(frames[0].begin(), frames[0].begin() + 4),
            (std::vector{20 / 255.0F, 21 / 255.0F, 0.0F, 0.0F}));
  EXPECT_EQ(std::vector<float>(frames[1].begin(), frames[1].begin() + 5),
            (std::vector{0.0F, 1 / 255.0F, 10 / 255.0F, 11 / 255.0F, 0.0F}));
}

TEST(Clips, FeaturesOfANetworkAreTakenAsTheyAre) {
  clip_folder at;
  auto values = tensor::allocate(at.pool, dtype::f32, {1, 3}, memory_use::scratch);
  std::copy_n(std::vector{0.5F, -2.0F, 300.0F}.begin(), 3, values.data<float>());
  at.write("train", values, {0, 1});
  at.captions("train", "0\t1\tyes\n");
  const auto pair = open_clips(at.path("train.safetensors"), {});
  const auto frames = at.numbers(*pair.train, "frames");
  EXPECT_EQ(std::vector<float>(frames[0].begin(), frames[0].begin() + 4), (std::vector{0.5F, -2.0F, 300.0F, 0.0F}));
}

TEST(Clips, TestCaptionsHaveTheTrainingCaptionsWords) {
  clip_folder at;
  at.frames("train", {0, 1, 2});
  at.captions("train", "0\t1\tb a\n1\t1\ta c\n");
  at.frames("test", {0, 1});
  at.captions("test", "0\t1\tc \xc3\x84pfel a\n");
  const auto pair = open_clips(at.path(), {});
  const auto list = pair.test->minibatches({});
  // The most frequent first, of equal ones the first seen: a 2, b 3, c 4.
  EXPECT_EQ(loaded(*pair.test, *list, 0).at("labels"), (rows{{-1, 4, 1, 2, 0}}));
  EXPECT_EQ(pair.test->inputs()[1].below, 5);
  const caption_words words(read_captions(at.path("train.tsv")));
  EXPECT_EQ(words.decode(std::vector<std::int64_t>{4, 1, 2, 0, 3}), "c <unk> a");
  EXPECT_EQ(words.decode(std::vector<std::int64_t>{0, 3}), "");
}

TEST(Clips, CaptionsAreCutFirstThenClips) {
  clip_folder at;
  at.frames("train", {0, 6});
  at.captions("train", "0\t6\ta b c d e\n");
  const auto pair = open_clips(at.path(), {.most_steps = 7, .most_words = 3});
  const auto list = pair.train->minibatches({});
  EXPECT_EQ(loaded(*pair.train, *list, 0).at("labels"), (rows{{-1, -1, -1, 2, 3, 4, 0}}));
  EXPECT_THAT(pair.train->description(), HasSubstr("1 captions cut to 3 words, 1 clips cut, so that 7 steps"));
  EXPECT_THAT([&] { open_clips(at.path(), {.most_steps = 4, .most_words = 3}); },
              ThrowsMessage<usage_error>(HasSubstr("found a limit of 4 steps, wanted at least 5")));
}

TEST(Clips, DamagedFilesAreRefusedByPlace) {
  clip_folder at;
  const auto refuses = [&](const std::string& says) {
    EXPECT_THAT([&] { open_clips(at.path(), {}); }, ThrowsMessage<error>(HasSubstr(says))) << says;
  };
  at.captions("train", "0\t1\ta\n");
  at.frames("train", {0, 1, 1, 2});
  refuses("train.safetensors: clip 1 has no frames, wanted one at least");
  at.frames("train", {0, 2, 1, 2});
  refuses("clip 1 ends before it begins");
  at.frames("train", {1, 2});
  refuses("clips are frames 1 to 2, wanted all 2 from 0 on");
  at.frames("train", {2});
  refuses("found no clips");
  auto values = tensor::allocate(at.pool, dtype::i64, {1, 3}, memory_use::scratch);
  at.write("train", values, {0, 1});
  refuses("frames are I64 [1, 3], wanted U8 or F32 [frames, ...]");
  values = tensor::allocate(at.pool, dtype::f32, {1, 2}, memory_use::scratch);
  std::fill_n(values.data<float>(), 2, std::numeric_limits<float>::infinity());
  at.write("train", values, {0, 1});
  refuses("train.safetensors: frames holds inf");
  write_safetensors(at.folder / "train.safetensors", {{"input", values}});
  refuses("found no tensor frames, wanted frames and first_frames");

  at.frames("train", {0, 1, 3});
  for (const auto& [lines, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "train.tsv: found no lines"},
           {"0\t1\n", "train.tsv: line 1: found 2 columns"},
           {"0\t1\ta\n1\t2\t \n", "train.tsv: line 2: found an empty caption"},
           {"0\t1\ta\n-1\t2\ta\n", "line 2: found '-1', wanted a clip's number"},
           {"0\tone\ta\n", "line 1: found 'one', wanted a clip's frames"},
           {"0\t1\ta\n2\t1\tb\n", "train.tsv: line 2: found clip 2, wanted 0 to 1"},
           {"1\t1\ta\n", "train.tsv: line 1: found 1 frames of clip 1, wanted the 2 of"},
           {"0\t1\t\xff\n", "train.tsv: line 1"}}) {
    at.captions("train", lines);
    refuses(says);
  }
  at.captions("train", "0\t1\ta\n");
  at.frames("test", {0, 1}, 3);
  at.captions("test", "0\t1\ta\n");
  refuses("test.safetensors: frames have 3 features, wanted the 2 of");
  EXPECT_THAT([&] { open_clips(at.path("train.tsv"), {}); },
              ThrowsMessage<usage_error>(HasSubstr("wanted a folder or files that end in .safetensors")));
}

} // namespace
} // namespace penstock::apps
