// Every way in which data can be wrong ends in one clear line that names the file.
#include "apps/data/data.hpp"
#include "kernels/check.hpp"
#include "kernels/safetensors.hpp"
#include "tests/data/data_files.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

data_options options(std::string spec, std::int64_t image_size = 8, std::int64_t channels = 1) {
  data_options o;
  o.spec = std::move(spec);
  o.image_size = image_size;
  o.channels = channels;
  return o;
}

// Opens everything and loads every sample.
void read_all(const data_options& o) {
  const auto data = open_images(o);
  for (const auto* half : {data.train.get(), data.test.get()}) {
    if (half == nullptr) continue;
    std::vector<float> values(static_cast<std::size_t>(element_count(half->input().dims)));
    for (std::int64_t i = 0; i < half->size(); ++i)
      half->load({1, 2, i}, true, values.data());
  }
}

struct broken_case {
  const char* name;
  std::function<void(const fs::path&)> breaking;
  const char* file;   // named in the message
  const char* wanted; // part of the message
};

enum class failure_kind : std::uint8_t { error, usage };

void expect_one_line(const data_options& o, const std::string& file, const std::string& wanted, failure_kind kind) {
  try {
    read_all(o);
    ADD_FAILURE() << "was accepted";
  } catch (const usage_error& e) {
    EXPECT_EQ(kind, failure_kind::usage);
    EXPECT_THAT(e.what(), HasSubstr(wanted));
    EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
  } catch (const error& e) {
    EXPECT_EQ(kind, failure_kind::error);
    EXPECT_THAT(e.what(), HasSubstr(file));
    EXPECT_THAT(e.what(), HasSubstr(wanted));
    EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
  }
}

const std::string images = "train-images-idx3-ubyte"; // NOLINT: constants of a test
const std::string labels = "train-labels-idx1-ubyte"; // NOLINT

std::vector<broken_case> broken_idx() {
  const auto replace = [](std::string name, std::string bytes) {
    return [=](const fs::path& folder) {
      fs::remove(folder / (name.starts_with(labels) ? labels : images));
      write_file(folder / name, bytes);
    };
  };
  const auto good = idx({12, 5, 5}, pattern(300));
  auto flipped = gzip(good);
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 0x10);
  auto bad_sum = gzip(good);
  bad_sum[bad_sum.size() - 6] = static_cast<char>(bad_sum[bad_sum.size() - 6] ^ 1);
  const auto packed = gzip(good);
  const auto bomb = gzip(idx({12, 5, 5}, std::string(50'000'000, '\0')));
  return {
      {"ImagesMissing", [](const auto& f) { fs::remove(f / images); }, "", "missing train-images-idx3-ubyte"},
      {"AllMissing",
       [](const auto& f) {
         for (const auto& entry : fs::directory_iterator(f))
           fs::remove(entry);
       },
       "", "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (looked for each with and without .gz)"},
      {"Empty", replace(images, ""), "train-images", "ends after 0 bytes, wanted 4 more"},
      {"HeaderCut", replace(images, good.substr(0, 14)), "train-images", "ends after 14 bytes, wanted 2 more"},
      {"LabelsForImages", replace(images, idx({12}, pattern(12))), "train-images",
       "magic number 0x00000801, wanted 0x00000803"},
      {"NotIdx", replace(images, "PK\x03\x04 something else entirely"), "train-images", "magic number 0x504b0304"},
      {"Truncated", replace(images, good.substr(0, 200)), "train-images", "too few for the 300"},
      {"OneByteShort", replace(images, good.substr(0, good.size() - 1)), "train-images", "too few for the 300"},
      {"TrailingBytes", replace(images, good + "x"), "train-images", "goes on after the 316 bytes"},
      {"AbsurdExtents", replace(images, idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "abc")), "train-images", "too few"},
      {"ExtentsThatWrap", replace(images, idx({0x80000000, 0x80000000, 4}, "abc")), "train-images", "too few"},
      {"LargeExtents", replace(images, idx({1, 0xFFFFFFFF, 0xFFFFFFFF}, "abc")), "train-images", "too few"},
      {"NoRows", replace(images, idx({12, 0, 5}, "")), "train-images", "dimension 1 of its header is 0"},
      {"NoImages", replace(images, idx({0, 5, 5}, "")), "train-images", "dimension 0 of its header is 0"},
      {"FewerImagesThanLabels", replace(images, idx({11, 5, 5}, pattern(275))), "train-images",
       "11 images, but 12 labels in train-labels"},
      {"LabelOutOfRange", replace(labels, idx({4}, std::string("\1\2\12\3"))), "train-labels",
       "label 10 at index 2, wanted 0 to 9"},
      {"LabelsTruncated", replace(labels, idx({4}, "\1\2\3")), "train-labels", "too few for the 4"},
      {"GzipTruncated", replace(images + ".gz", packed.substr(0, packed.size() / 2)), "idx3-ubyte.gz", "ends early"},
      {"GzipWithoutTrailer", replace(images + ".gz", packed.substr(0, packed.size() - 4)), "idx3-ubyte.gz",
       "ends early"},
      {"GzipCorrupt", replace(images + ".gz", flipped), "idx3-ubyte.gz", "corrupt gzip data"},
      {"GzipWrongChecksum", replace(images + ".gz", bad_sum), "idx3-ubyte.gz", "corrupt gzip data"},
      {"GzipEmpty", replace(images + ".gz", ""), "idx3-ubyte.gz", "ends early"},
      {"NotGzip", replace(images + ".gz", good), "idx3-ubyte.gz", "corrupt gzip data"},
      {"GarbageAfterGzip", replace(images + ".gz", packed + "garbage"), "idx3-ubyte.gz", "corrupt gzip data"},
      {"GzipBomb", replace(images + ".gz", bomb), "idx3-ubyte.gz", "goes on after the 316 bytes"},
      {"GzipAbsurdExtents", replace(images + ".gz", gzip(idx({0xFFFFFFFF, 0xFFFF, 0xFFFF}, "abc"))), "idx3-ubyte.gz",
       "too few"},
      {"GzipPromisesMore", replace(images + ".gz", gzip(idx({12, 6, 6}, pattern(300)))), "idx3-ubyte.gz",
       "ends after 316 bytes, wanted 132 more"},
      {"FolderForFile",
       [](const auto& f) {
         fs::remove(f / images);
         fs::create_directory(f / images);
       },
       "train-images", "it is a folder"},
      {"PipeForFile",
       [](const auto& f) {
         fs::remove(f / images);
         ASSERT_EQ(::mkfifo((f / images).c_str(), 0600), 0);
       },
       "train-images", "not a regular file"},
  };
}

TEST(BrokenIdxData, EndsInOneLineThatNamesTheFile) {
  for (const auto& broken : broken_idx()) {
    SCOPED_TRACE(broken.name);
    const temporary_folder folder;
    write_idx_folder(folder.path(), 12, 4);
    broken.breaking(folder.path());
    expect_one_line(options("idx:" + folder.path().string()), folder.path().string() + (*broken.file ? "/" : ""),
                    broken.wanted, failure_kind::error);
    expect_one_line(options("idx:" + folder.path().string()), broken.file, broken.wanted, failure_kind::error);
  }
}

std::vector<broken_case> broken_cifar() {
  const auto replace = [](const char* name, std::string bytes) {
    return [=](const fs::path& folder) { write_file(folder / name, bytes); };
  };
  const std::string record = '\1' + pattern(3072);
  return {
      {"BatchMissing", [](const auto& f) { fs::remove(f / "data_batch_3.bin"); }, "", "missing data_batch_3.bin"},
      {"TestMissing", [](const auto& f) { fs::remove(f / "test_batch.bin"); }, "", "missing test_batch.bin"},
      {"Empty", replace("data_batch_2.bin", ""), "data_batch_2.bin", "0 bytes, wanted a whole number of records"},
      {"Truncated", replace("data_batch_2.bin", record.substr(1)), "data_batch_2.bin", "3072 bytes, wanted"},
      {"TrailingByte", replace("test_batch.bin", record + "x"), "test_batch.bin", "3074 bytes, wanted"},
      {"LabelOutOfRange", replace("data_batch_5.bin", record + '\12' + pattern(3072)), "data_batch_5.bin",
       "label 10 at index 1, wanted 0 to 9"},
  };
}

TEST(BrokenCifarData, EndsInOneLineThatNamesTheFile) {
  for (const auto& broken : broken_cifar()) {
    SCOPED_TRACE(broken.name);
    const temporary_folder folder;
    write_cifar_folder(folder.path(), 2);
    broken.breaking(folder.path());
    expect_one_line(options("cifar10:" + folder.path().string(), 32, 3), broken.file, broken.wanted,
                    failure_kind::error);
  }
}

std::vector<broken_case> broken_folders() {
  const auto jpeg = jpeg_of_halves(32, 32);
  const auto replace = [](std::string bytes) {
    return [=](const fs::path& folder) { write_file(folder / "train/a/1.jpg", bytes); };
  };
  auto damaged = jpeg;
  damaged.replace(jpeg.size() - 40, 20, 20, '\xFF');
  auto huge = jpeg_of(8, 8, jpeg_colours::grey, {1});
  const auto frame = huge.find("\xFF\xC0"); // then length, precision, height, width
  huge.replace(frame + 5, 4, "\xFF\x00\xFF\x00", 4);
  return {
      {"ClassWithoutImages",
       [](const auto& f) {
         fs::remove(f / "train/b/2.jpg");
         write_file(f / "train/b/2.png", "png");
       },
       "train/b", "a class without images, wanted .jpg or .jpeg files, found 1 PNG file"},
      {"NoClasses", [](const auto& f) { fs::remove_all(f / "train/a"), fs::remove_all(f / "train/b"); }, "train",
       "no class folders in it, wanted CLASS/*.jpg"},
      {"UnknownClassInTest", [](const auto& f) { fs::rename(f / "val/b", f / "val/c"); }, "val/c",
       "no class of this name among the training images"},
      {"EmptyTest", [](const auto& f) { fs::remove_all(f / "val/a"), fs::remove_all(f / "val/b"); }, "val",
       "no class folders"},
      {"TooManyClasses",
       [](const auto& f) {
         for (const char c : std::string("cdefghijk")) {
           write_file(f / "train" / std::string(1, c) / "1.jpg", jpeg_of_halves(8, 8));
         }
       },
       "train", "11 class folders, but the network has 10 classes"},
      {"EmptyJpeg", replace(""), "train/a/1.jpg", "corrupt JPEG"},
      {"NotJpeg", replace("GIF89a etc"), "train/a/1.jpg", "corrupt JPEG: Not a JPEG file but a GIF"},
      {"CutInHeader", replace(jpeg.substr(0, 100)), "train/a/1.jpg", "corrupt JPEG"},
      {"CutInPixels", replace(jpeg.substr(0, jpeg.size() - 30)), "train/a/1.jpg", "corrupt JPEG: Premature end"},
      {"EndMarkerCut", replace(jpeg.substr(0, jpeg.size() - 2)), "train/a/1.jpg", "corrupt JPEG: Premature end"},
      {"DamagedPixels", replace(damaged), "train/a/1.jpg", "corrupt JPEG"},
      {"HugePromise", replace(huge), "train/a/1.jpg", "wanted at most 100 million"},
      {"BrokenLink",
       [](const auto& f) {
         fs::remove(f / "train/a/1.jpg");
         fs::create_symlink("nowhere", f / "train/a/1.jpg");
       },
       "train/a/1.jpg", "No such file"},
  };
}

TEST(BrokenImageFolder, EndsInOneLineThatNamesTheFile) {
  for (const auto& broken : broken_folders()) {
    SCOPED_TRACE(broken.name);
    const temporary_folder folder;
    for (const char* name : {"train/a/1.jpg", "train/b/2.jpg", "val/a/1.jpg", "val/b/1.jpg"}) {
      write_file(folder / name, jpeg_of_halves(32, 32));
    }
    broken.breaking(folder.path());
    expect_one_line(options("imagefolder:" + folder.path().string(), 8, 3), broken.file, broken.wanted,
                    failure_kind::error);
  }
}

TEST(BrokenTensors, EndInOneLineThatNamesTheFile) {
  const temporary_folder folder;
  const auto file = (folder / "f").string();
  memory_pool pool;
  const auto make = [&](dtype type, const shape& dims) {
    auto t = tensor::allocate(pool, type, dims, memory_use::scratch);
    std::fill_n(t.raw(), t.bytes(), std::byte{0});
    return t;
  };
  const auto good_input = make(dtype::f32, {3, 1, 8, 8});
  const auto good_target = make(dtype::i64, {3});
  auto bad_label = make(dtype::i64, {3});
  bad_label.data<std::int64_t>()[1] = -1;
  auto nan_pixel = make(dtype::f32, {3, 1, 8, 8});
  nan_pixel.data<float>()[64 + 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  struct broken_tensors {
    named_tensors tensors;
    const char* wanted;
  };
  const std::vector<broken_tensors> cases{
      {{{"input", good_input}}, "no tensor named 'target'"},
      {{{"target", good_target}}, "no tensor named 'input'"},
      {{{"input", make(dtype::i64, {3, 1, 8, 8})}, {"target", good_target}}, "input is I64"},
      {{{"input", make(dtype::f32, {3, 64})}, {"target", good_target}}, "wanted F32 or U8 of shape (N, C, H, W)"},
      {{{"input", good_input}, {"target", make(dtype::f32, {3})}}, "target is F32"},
      {{{"input", good_input}, {"target", make(dtype::i64, {3, 1})}}, "wanted I64 or I32 of shape (N)"},
      {{{"input", good_input}, {"target", make(dtype::i64, {4})}}, "3 samples in input, but 4 in target"},
      {{{"input", make(dtype::f32, {0, 1, 8, 8})}, {"target", make(dtype::i64, {0})}}, "holds no samples"},
      {{{"input", make(dtype::f32, {3, 1, 8, 9})}, {"target", good_target}}, "the network takes [3, 1, 8, 8]"},
      {{{"input", good_input}, {"target", bad_label}}, "label -1 at index 1, wanted 0 to 9"},
      {{{"input", nan_pixel}, {"target", good_target}}, "tensor 'input' holds nan at [1, 0, 1, 3]"},
  };
  for (const auto& broken : cases) {
    SCOPED_TRACE(broken.wanted);
    write_safetensors(file, broken.tensors);
    expect_one_line(options("tensors:" + file), file, broken.wanted, failure_kind::error);
  }
}

TEST(BrokenSpecification, IsAUsageErrorThatSaysWhatIsWanted) {
  expect_one_line(options("fashion-mnst:/x"), "", "did you mean 'fashion-mnist'?", failure_kind::usage);
  expect_one_line(options("zzzzzzzzzz"), "", "wanted fashion-mnist:DIR, idx:DIR, cifar10:DIR", failure_kind::usage);
  expect_one_line(options(""), "", "unknown data ''", failure_kind::usage);
  expect_one_line(options("fashion-mnist"), "", "wanted fashion-mnist:DIR", failure_kind::usage);
  expect_one_line(options("idx:"), "", "wanted idx:DIR", failure_kind::usage);
  expect_one_line(options("synthetic:7"), "", "wanted synthetic", failure_kind::usage);
  expect_one_line(options("synthetic", 0), "", "the image size is 0", failure_kind::usage);
  expect_one_line(options("synthetic", 8, 0), "", "the number of channels is 0", failure_kind::usage);
  auto none = options("synthetic");
  none.synthetic_samples = 0;
  expect_one_line(none, "", "0 samples", failure_kind::usage);
}

TEST(BrokenFolder, IsNamed) {
  const temporary_folder folder;
  write_file(folder / "file", "x");
  for (const char* kind : {"idx:", "fashion-mnist:", "cifar10:", "imagefolder:"}) {
    expect_one_line(options(kind + (folder / "none").string(), 8, 3), (folder / "none").string(), "no such folder",
                    failure_kind::error);
    expect_one_line(options(kind + (folder / "file").string(), 8, 3), (folder / "file").string(), "wanted a folder",
                    failure_kind::error);
  }
}

TEST(BrokenFolder, MayBeUnreadable) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const temporary_folder folder;
  write_idx_folder(folder.path(), 2, 1);
  fs::permissions(folder / images, fs::perms::none);
  expect_one_line(options("idx:" + folder.path().string()), images, "Permission denied", failure_kind::error);
}

// Random damage with a fixed seed. Whatever happens, nothing but penstock's own errors may come out.
class MutatedData : public testing::Test {
protected:
  std::string mutated(std::string bytes) {
    const auto changes = 1 + random_() % 3;
    for (unsigned i = 0; i < changes && !bytes.empty(); ++i) {
      // Half of the damage goes to the header.
      const auto at =
          random_() % 2 == 0 ? random_() % std::min<std::size_t>(20, bytes.size()) : random_() % bytes.size();
      switch (random_() % 5) {
      case 0:
        bytes[at] = static_cast<char>(random_());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
        break;
      case 2:
        bytes.erase(at, 1 + random_() % 4);
        break;
      case 3:
        bytes.insert(at, 1 + random_() % 4, static_cast<char>(random_()));
        break;
      default:
        bytes.resize(at);
        break;
      }
    }
    return bytes;
  }

  int survive(const fs::path& file, const data_options& o, int rounds) {
    const auto good = read_file(file);
    int accepted = 0;
    for (int i = 0; i < rounds; ++i) {
      write_file(file, mutated(good));
      try {
        read_all(o);
        ++accepted;
      } catch (const error& e) {
        EXPECT_THAT(e.what(), HasSubstr(file.parent_path().string()));
      }
    }
    write_file(file, good);
    return accepted;
  }

private:
  std::mt19937 random_{20262}; // NOLINT: the same damage on every run
};

TEST_F(MutatedData, IdxIsReadOrRefused) {
  const temporary_folder folder;
  write_idx_folder(folder.path(), 3, 2);
  const auto o = options("idx:" + folder.path().string());
  EXPECT_GT(survive(folder / images, o, 2000), 50);
  EXPECT_GT(survive(folder / labels, o, 1000), 5);
}

TEST_F(MutatedData, GzipIsReadOrRefused) {
  const temporary_folder folder;
  write_idx_folder(folder.path(), 3, 2);
  const auto packed = folder / (images + ".gz");
  write_file(packed, gzip(read_file(folder / images)));
  fs::remove(folder / images);
  survive(packed, options("idx:" + folder.path().string()), 2000);
}

TEST_F(MutatedData, CifarIsReadOrRefused) {
  const temporary_folder folder;
  write_cifar_folder(folder.path(), 1);
  EXPECT_GT(survive(folder / "data_batch_1.bin", options("cifar10:" + folder.path().string(), 8, 3), 2000), 50);
}

TEST_F(MutatedData, JpegIsReadOrRefused) {
  const temporary_folder folder;
  write_file(folder / "a/1.jpg", jpeg_of_halves(24, 24));
  survive(folder / "a/1.jpg", options("imagefolder:" + folder.path().string(), 8, 3), 2000);
  write_file(folder / "a/1.jpg", jpeg_of(24, 24, jpeg_colours::cmyk, {1, 2, 3, 4}));
  survive(folder / "a/1.jpg", options("imagefolder:" + folder.path().string(), 8, 3), 1000);
}

} // namespace
} // namespace penstock::apps
