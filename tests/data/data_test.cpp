// Every data set by its specification: what comes out of good files.
#include "apps/data/data.hpp"
#include "kernels/check.hpp"
#include "kernels/safetensors.hpp"
#include "tests/data/data_files.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <map>
#include <set>

namespace penstock::apps {
namespace {

using actors::sample_key;
using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

struct sample {
  std::int64_t label = 0;
  std::vector<float> values;
};

sample load(const actors::labelled_images& data, const sample_key& key, bool training = false) {
  sample s;
  s.values.resize(static_cast<std::size_t>(element_count(data.input().dims)));
  s.label = data.load(key, training, s.values.data());
  return s;
}

sample at(const actors::labelled_images& data, std::int64_t index) {
  return load(data, {0, 0, index});
}

data_options options(std::string spec, std::int64_t image_size, std::int64_t channels = 1) {
  data_options o;
  o.spec = std::move(spec);
  o.image_size = image_size;
  o.channels = channels;
  return o;
}

float as_float(char byte) {
  return static_cast<float>(static_cast<unsigned char>(byte));
}

TEST(IdxData, GivesNormalisedPixelsAndLabelsInFileOrder) {
  const temporary_folder folder;
  write_idx_folder(folder.path(), 12, 4);
  const auto data = open_images(options("idx:" + folder.path().string(), 5));
  EXPECT_EQ(data.train->size(), 12);
  EXPECT_EQ(data.test->size(), 4);
  EXPECT_EQ(data.train->input().dims, (shape{1, 5, 5}));
  EXPECT_EQ(data.train->classes(), 10);
  EXPECT_TRUE(data.train->shuffled());
  EXPECT_THAT(data.train->description(), HasSubstr("12 grey images of 5x5"));
  ASSERT_TRUE(data.conversion);
  EXPECT_THAT(describe(*data.conversion), HasSubstr("pixels / 255, mean "));
  const auto pixels = pattern(12 * 25);
  for (std::int64_t i = 0; i < 12; ++i) {
    const auto s = at(*data.train, i);
    EXPECT_EQ(s.label, i % 10);
    for (std::size_t j = 0; j < 25; ++j) {
      const auto pixel = as_float(pixels[static_cast<std::size_t>(i) * 25 + j]);
      ASSERT_NEAR(s.values[j], (pixel / 255 - 0.1307F) / 0.3081F, 1e-5);
    }
  }
}

TEST(IdxData, NormalisesFashionMnistByItsOwnMeanAndDeviation) {
  const temporary_folder folder;
  write_idx_folder(folder.path(), 2, 1);
  const auto data = open_images(options("fashion-mnist:" + folder.path().string(), 5));
  EXPECT_NEAR(at(*data.train, 0).values[0], (0 - 0.2860F) / 0.3530F, 1e-6); // the pattern starts with 0
  EXPECT_NEAR(at(*data.train, 0).values[1], (31.0F / 255 - 0.2860F) / 0.3530F, 1e-6);
}

TEST(IdxData, ReadsGzipFilesLikePlainOnes) {
  const temporary_folder plain;
  const temporary_folder packed;
  write_idx_folder(plain.path(), 12, 4);
  for (const auto& name : plain.names())
    write_file(packed / (name + ".gz"), gzip(read_file(plain / name)));
  const auto a = open_images(options("idx:" + plain.path().string(), 5));
  const auto b = open_images(options("idx:" + packed.path().string(), 5));
  for (std::int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(at(*a.train, i).values, at(*b.train, i).values);
  EXPECT_EQ(at(*a.test, 3).label, at(*b.test, 3).label);
}

TEST(IdxData, ReadsAGzipFileOfSeveralMembers) {
  const temporary_folder folder;
  write_idx_folder(folder.path(), 12, 4);
  const auto images = read_file(folder / "train-images-idx3-ubyte");
  const auto expected = at(*open_images(options("idx:" + folder.path().string(), 5)).train, 11).values;
  std::filesystem::remove(folder / "train-images-idx3-ubyte");
  write_file(folder / "train-images-idx3-ubyte.gz", gzip(images.substr(0, 100)) + gzip(images.substr(100)));
  EXPECT_EQ(at(*open_images(options("idx:" + folder.path().string(), 5)).train, 11).values, expected);
}

TEST(IdxData, IsNotAugmentedAndRepeatsGreyToThreeChannels) {
  const temporary_folder folder;
  write_idx_folder(folder.path(), 2, 1);
  const auto data = open_images(options("idx:" + folder.path().string(), 5, 3));
  EXPECT_EQ(data.train->input().dims, (shape{3, 5, 5}));
  const auto s = at(*data.train, 1);
  EXPECT_EQ(load(*data.train, {3, 4, 1}, true).values, s.values);
  EXPECT_TRUE(std::equal(s.values.begin(), s.values.begin() + 25, s.values.begin() + 25));
  EXPECT_TRUE(std::equal(s.values.begin(), s.values.begin() + 25, s.values.begin() + 50));
}

TEST(IdxData, ReadsTheRealFashionMnist) {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs the Debian package dataset-fashion-mnist";
  const auto data = open_images(options("fashion-mnist:" + folder.string(), 28));
  ASSERT_EQ(data.train->size(), 60000);
  ASSERT_EQ(data.test->size(), 10000);
  std::map<std::int64_t, int> count;
  std::vector<float> image(28 * 28);
  double sum = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < 60000; ++i) {
    ++count[data.train->load({0, 0, i}, true, image.data())];
    for (const double value : image) {
      sum += value;
      squares += value * value;
    }
  }
  EXPECT_EQ(count.size(), 10U);
  for (const auto& [label, images] : count)
    EXPECT_EQ(images, 6000) << label;
  const double mean = sum / (60000.0 * 784);
  EXPECT_NEAR(mean, 0, 1e-3);
  EXPECT_NEAR(squares / (60000.0 * 784) - mean * mean, 1, 1e-3);
  EXPECT_EQ(data.train->load({0, 0, 0}, false, image.data()), 9); // an ankle boot
}

TEST(CifarData, GivesTheTrainingBatchesInOrder) {
  const temporary_folder folder;
  write_cifar_folder(folder.path(), 3);
  const auto data = open_images(options("cifar10:" + folder.path().string(), 32, 3));
  EXPECT_EQ(data.train->size(), 15);
  EXPECT_EQ(data.test->size(), 3);
  const auto s = at(*data.train, 14);
  EXPECT_EQ(s.label, 4);
  const auto pixels = pattern(3072, 14);
  const std::vector<float> mean{0.4914F, 0.4822F, 0.4465F};
  const std::vector<float> deviation{0.2470F, 0.2435F, 0.2616F};
  for (std::size_t i = 0; i < 3072; ++i) {
    ASSERT_NEAR(s.values[i], (as_float(pixels[i]) / 255 - mean[i / 1024]) / deviation[i / 1024], 1e-5);
  }
  EXPECT_EQ(at(*data.test, 0).label, 5);
}

TEST(CifarData, AugmentsByAShiftOfAtMostFourAndAFlip) {
  const temporary_folder folder;
  write_cifar_folder(folder.path(), 1);
  auto o = options("cifar10:" + folder.path().string(), 32, 3);
  const auto data = open_images(o);
  const auto plain = at(*data.train, 0).values;
  const float black = (0 - 0.4914F) / 0.2470F;
  const auto shown = [&](int down, int right, bool flip) {
    std::vector<float> red(1024);
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        const int from_y = y - down;
        const int from_x = (flip ? 31 - x : x) - right;
        const bool inside = from_y >= 0 && from_y < 32 && from_x >= 0 && from_x < 32;
        red[static_cast<std::size_t>(y * 32 + x)] =
            inside ? plain[static_cast<std::size_t>(from_y * 32 + from_x)] : black;
      }
    }
    return red;
  };
  std::set<std::tuple<int, int, bool>> seen;
  for (std::int64_t epoch = 0; epoch < 600; ++epoch) {
    auto values = load(*data.train, {5, epoch, 0}, true).values;
    values.resize(1024);
    bool found = false;
    for (int down = -4; down <= 4; ++down) {
      for (int right = -4; right <= 4; ++right) {
        for (const bool flip : {false, true}) {
          const auto wanted = shown(down, right, flip);
          // The first row is compared first: it differs for nearly all.
          const auto equal = [](float a, float b) { return std::abs(a - b) < 1e-4F; };
          if (!std::equal(values.begin(), values.begin() + 200, wanted.begin(), equal)) continue;
          if (!std::equal(values.begin(), values.end(), wanted.begin(), equal)) continue;
          found = true;
          seen.emplace(down, right, flip);
        }
      }
    }
    ASSERT_TRUE(found) << "epoch " << epoch;
  }
  EXPECT_GT(seen.size(), 140U); // of 162
  EXPECT_EQ(load(*data.train, {5, 1, 0}, false).values, plain);
  o.augment = false;
  EXPECT_EQ(load(*open_images(o).train, {5, 1, 0}, true).values, plain);
}

TEST(CifarData, BecomesGreyForANetworkOfOneChannel) {
  const temporary_folder folder;
  write_cifar_folder(folder.path(), 1);
  const auto path = folder.path().string();
  const auto grey = at(*open_images(options("cifar10:" + path, 32, 1)).train, 0).values;
  ASSERT_EQ(grey.size(), 1024U);
  const auto p = pattern(3072);
  const float luma = 0.299F * as_float(p[7]) + 0.587F * as_float(p[1031]) + 0.114F * as_float(p[2055]);
  const float mean = 0.299F * 0.4914F + 0.587F * 0.4822F + 0.114F * 0.4465F;
  const float deviation = 0.299F * 0.2470F + 0.587F * 0.2435F + 0.114F * 0.2616F;
  EXPECT_NEAR(grey[7], (luma / 255 - mean) / deviation, 1e-4);
  EXPECT_THROW(open_images(options("cifar10:" + path, 32, 2)), usage_error);
}

TEST(ImageFolder, NumbersClassesByNameAndDecodesGreyColourAndInk) {
  const temporary_folder folder;
  write_file(folder / "train/b/1.jpg", jpeg_of(20, 20, jpeg_colours::rgb, {250, 20, 90}));
  write_file(folder / "train/a/2.JPEG", jpeg_of(20, 20, jpeg_colours::grey, {77}));
  write_file(folder / "train/c/3.jpeg", jpeg_of(20, 20, jpeg_colours::cmyk, {200, 100, 50, 128}));
  write_file(folder / "train/c/notes.txt", "not an image");
  write_file(folder / "val/c/4.jpg", jpeg_of(9, 30, jpeg_colours::grey, {255}));
  const auto data = open_images(options("imagefolder:" + folder.path().string(), 16, 3));
  ASSERT_EQ(data.train->size(), 3);
  ASSERT_EQ(data.test->size(), 1);
  const auto expect_colour = [](const sample& s, std::int64_t label, float r, float g, float b) {
    EXPECT_EQ(s.label, label);
    EXPECT_NEAR(s.values[0] * 0.229F + 0.485F, r / 255, 0.01);
    EXPECT_NEAR(s.values[256] * 0.224F + 0.456F, g / 255, 0.01);
    EXPECT_NEAR(s.values[512] * 0.225F + 0.406F, b / 255, 0.01);
    EXPECT_THAT(std::vector<float>(s.values.begin(), s.values.begin() + 256), Each(FloatNear(s.values[0], 1e-4F)));
  };
  expect_colour(at(*data.train, 0), 0, 77, 77, 77);
  expect_colour(at(*data.train, 1), 1, 250, 20, 90);
  expect_colour(at(*data.train, 2), 2, 100.4F, 50.2F, 25.1F);
  expect_colour(at(*data.test, 0), 2, 255, 255, 255);
}

TEST(ImageFolder, MayHaveNoTestSet) {
  const temporary_folder folder;
  write_file(folder / "x/1.jpg", jpeg_of(8, 8, jpeg_colours::grey, {10}));
  const auto data = open_images(options("imagefolder:" + folder.path().string(), 8, 1));
  EXPECT_EQ(data.train->size(), 1);
  EXPECT_EQ(data.test, nullptr);
}

TEST(ImageFolder, TakesTheCentreInEvaluationAndRandomPlacesInTraining) {
  const temporary_folder folder;
  write_file(folder / "x/1.jpg", jpeg_of_halves(64, 32));
  const auto data = open_images(options("imagefolder:" + folder.path().string(), 28, 1));
  const auto centre = at(*data.train, 0).values;
  EXPECT_LT(centre[0], -1.5F);
  EXPECT_GT(centre[27], 2.0F);
  // Black left of the middle, white right of it.
  EXPECT_LT(centre[12], -1.5F);
  EXPECT_GT(centre[15], 2.0F);
  std::set<std::vector<float>> seen;
  int flipped = 0;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const auto s = load(*data.train, {1, epoch, 0}, true).values;
    seen.insert(s);
    if (s[0] > s[27]) ++flipped;
  }
  EXPECT_GT(seen.size(), 20U);
  EXPECT_GT(flipped, 50);
  EXPECT_LT(flipped, 150);
}

TEST(TensorsData, GoIntoTheNetworkAsTheyAreAndInOrder) {
  const temporary_folder folder;
  memory_pool pool;
  named_tensors tensors;
  auto input = tensor::allocate(pool, dtype::f32, {3, 2, 2, 2}, memory_use::scratch);
  for (int i = 0; i < 24; ++i)
    input.data<float>()[i] = static_cast<float>(i) * 0.5F;
  auto target = tensor::allocate(pool, dtype::i64, {3}, memory_use::scratch);
  for (int i = 0; i < 3; ++i)
    target.data<std::int64_t>()[i] = 2 - i;
  write_safetensors(folder / "f", {{"input", input}, {"target", target}});
  const auto data = open_images(options("tensors:" + (folder / "f").string(), 2, 2));
  EXPECT_EQ(data.test, nullptr);
  EXPECT_FALSE(data.train->shuffled());
  EXPECT_EQ(data.train->size(), 3);
  EXPECT_EQ(data.train->input().dims, (shape{2, 2, 2}));
  const auto s = load(*data.train, {9, 9, 1}, true);
  EXPECT_EQ(s.label, 1);
  EXPECT_THAT(s.values, ElementsAre(4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5));
}

TEST(TensorsData, MayBeBytesWithShortLabels) {
  const temporary_folder folder;
  memory_pool pool;
  auto input = tensor::allocate(pool, dtype::u8, {2, 1, 1, 1}, memory_use::scratch);
  input.data<std::uint8_t>()[0] = 3;
  input.data<std::uint8_t>()[1] = 255;
  auto target = tensor::allocate(pool, dtype::i32, {2}, memory_use::scratch);
  target.data<std::int32_t>()[0] = 9;
  target.data<std::int32_t>()[1] = 0;
  write_safetensors(folder / "f", {{"input", input}, {"target", target}});
  const auto data = open_images(options("tensors:" + (folder / "f").string(), 1));
  EXPECT_THAT(at(*data.train, 1).values, ElementsAre(255));
  EXPECT_EQ(at(*data.train, 0).label, 9);
}

TEST(SyntheticData, ComesFromTheSeedAlone) {
  auto o = options("synthetic", 16, 3);
  o.seed = 5;
  const auto data = open_images(o);
  EXPECT_EQ(data.train->size(), 1024);
  EXPECT_EQ(data.test->size(), 256);
  const auto s = load(*data.train, {1, 2, 3}, true);
  EXPECT_EQ(load(*open_images(o).train, {7, 8, 3}, false).values, s.values);
  EXPECT_NE(at(*data.train, 4).values, s.values);
  EXPECT_NE(at(*data.test, 3).values, s.values);
  o.seed = 6;
  EXPECT_NE(at(*open_images(o).train, 3).values, s.values);
}

TEST(SyntheticData, LooksNormalAndUsesEveryClass) {
  const auto data = open_images(options("synthetic", 32, 1));
  double sum = 0;
  double squares = 0;
  std::set<std::int64_t> labels;
  for (std::int64_t i = 0; i < 1024; ++i) {
    const auto s = at(*data.train, i);
    labels.insert(s.label);
    for (const double value : s.values) {
      sum += value;
      squares += value * value;
    }
  }
  EXPECT_EQ(labels.size(), 10U);
  EXPECT_NEAR(sum / (1024.0 * 1024), 0, 0.2);
  EXPECT_NEAR(squares / (1024.0 * 1024), 1, 0.4);
}

// The mean of the training images of a class must recognise test images: then a network can learn it.
TEST(SyntheticData, CanBeLearned) {
  const auto data = open_images(options("synthetic", 8, 1));
  std::vector<std::vector<double>> mean(10, std::vector<double>(64));
  std::vector<int> count(10);
  for (std::int64_t i = 0; i < data.train->size(); ++i) {
    const auto s = at(*data.train, i);
    ++count[static_cast<std::size_t>(s.label)];
    for (std::size_t j = 0; j < 64; ++j)
      mean[static_cast<std::size_t>(s.label)][j] += s.values[j];
  }
  int right = 0;
  for (std::int64_t i = 0; i < data.test->size(); ++i) {
    const auto s = at(*data.test, i);
    const auto distance = [&](std::size_t c) {
      double d = 0;
      for (std::size_t j = 0; j < 64; ++j)
        d += std::pow(s.values[j] - mean[c][j] / count[c], 2);
      return d;
    };
    std::size_t best = 0;
    for (std::size_t c = 1; c < 10; ++c)
      best = distance(c) < distance(best) ? c : best;
    if (static_cast<std::int64_t>(best) == s.label) ++right;
  }
  EXPECT_GT(right, 240); // of 256
}

// Loader threads share a data set; a key says everything.
TEST(EveryDataSet, GivesTheSameBytesForTheSameKeyFromManyThreads) {
  const temporary_folder folder;
  write_idx_folder(folder / "idx", 12, 4);
  write_cifar_folder(folder / "cifar", 3);
  for (int i = 0; i < 12; ++i) {
    write_file(folder / ("jpegs/a/" + std::to_string(i) + ".jpg"), jpeg_of_halves(40 + i, 30));
  }
  for (const auto& spec : {"idx:" + (folder / "idx").string(), "cifar10:" + (folder / "cifar").string(),
                           "imagefolder:" + (folder / "jpegs").string(), std::string("synthetic")}) {
    const auto data = open_images(options(spec, 24, 3));
    const auto everything = [&] {
      std::vector<float> all;
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        for (std::int64_t i = 0; i < 12; ++i) {
          const auto s = load(*data.train, {11, epoch, i}, true);
          all.push_back(static_cast<float>(s.label));
          all.insert(all.end(), s.values.begin(), s.values.end());
        }
      }
      return all;
    };
    const auto alone = everything();
    std::vector<std::future<std::vector<float>>> threads;
    for (int i = 0; i < 4; ++i)
      threads.push_back(std::async(std::launch::async, everything));
    for (auto& thread : threads)
      EXPECT_EQ(thread.get(), alone) << spec;
  }
}

} // namespace
} // namespace penstock::apps
