// What an image folder says and does about what it cannot use: other files, broken JPEGs, orientation marks.
#include "apps/data/data.hpp"
#include "apps/data/image_list.hpp"
#include "apps/data/jpeg.hpp"
#include "apps/data/jpeg_scan.hpp"
#include "kernels/check.hpp"
#include "tests/data/data_files.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <sys/stat.h>

namespace penstock::apps {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

data_options options_for(const temporary_folder& folder, std::int64_t size = 8) {
  data_options o;
  o.spec = "imagefolder:" + folder.path().string();
  o.image_size = size;
  return o;
}

// A camera's mark, as an Exif segment behind the start marker.
std::string with_orientation(const std::string& jpeg, char orientation, bool is_big = true) {
  std::string tiff = is_big ? std::string("MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19)
                            : std::string("II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18);
  tiff += orientation;
  tiff += std::string(is_big ? 6 : 7, '\0');
  const auto body = std::string("Exif\0\0", 6) + tiff;
  const auto length = static_cast<char>(body.size() + 2);
  return jpeg.substr(0, 2) + "\xff\xe1" + std::string(1, '\0') + length + body + jpeg.substr(2);
}

// The end marker goes into the middle of the pixels, and stands at the end again.
std::string damaged_pixels() {
  auto jpeg = jpeg_of_halves(32, 32);
  return jpeg.replace(jpeg.size() - 40, 20, 20, '\xff');
}

TEST(ImageFolderListing, SaysByKindWhatIsLeftOut) {
  const temporary_folder folder;
  write_file(folder / "a/1.JPG", jpeg_of_halves(8, 8));
  write_file(folder / "b/2.jpeg", jpeg_of_halves(8, 8));
  for (const char* name : {"a/1.png", "b/2.PNG", "b/3.png", "b/x.webp", "a/notes.txt", "loose.jpg"})
    write_file(folder / name, "x");
  write_file(folder / "a/more/4.jpg", jpeg_of_halves(8, 8));
  write_file(folder / "b/folder.jpg/5.jpg", jpeg_of_halves(8, 8));
  write_file(folder / "a/.hidden.png", "x");
  const auto data = open_images(options_for(folder));
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_THAT(data.train->description(),
              HasSubstr("left out: 1 JPEG file outside class folders, 3 PNG files, 1 WEBP file, 1 other file and 2 "
                        "nested folders (only JPEGs in CLASS folders are read)"));
}

TEST(ImageFolderListing, SaysNothingWhereNothingIsLeftOut) {
  const temporary_folder folder;
  write_file(folder / "a/1.jpg", jpeg_of_halves(8, 8));
  std::filesystem::create_symlink(folder / "a/1.jpg", folder / "a/2.jpg");
  const auto data = open_images(options_for(folder));
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_THAT(data.train->description(), AllOf(Not(HasSubstr("left out")), Not(HasSubstr("EXIF"))));
}

TEST(ImageFolderListing, AClassWithoutJpegsIsRefusedWithWhatItHolds) {
  const temporary_folder folder;
  write_file(folder / "a/1.png", "x");
  write_file(folder / "a/2.png", "x");
  const auto open = [&] { open_images(options_for(folder)); };
  EXPECT_THAT(open, ThrowsMessage<error>(AllOf(HasSubstr("/a"), HasSubstr("found 2 PNG files"))));
  std::filesystem::remove(folder / "a/1.png");
  std::filesystem::remove(folder / "a/2.png");
  EXPECT_THAT(open, ThrowsMessage<error>(HasSubstr("found none of any kind")));
}

TEST(BrokenImages, AreFoundAtTheStartAndCounted) {
  const temporary_folder folder;
  const auto good = jpeg_of_halves(16, 16);
  for (int i = 0; i < 200; ++i) // enough for several threads
    write_file(folder / ("a/" + std::to_string(1000 + i) + ".jpg"), good);
  write_file(folder / "a/1005.jpg", good.substr(0, good.size() / 2));
  write_file(folder / "a/1100.jpg", "\x89PNG\r\n\x1a\n and so on");
  write_file(folder / "a/1150.jpg", "");
  EXPECT_THAT([&] { open_images(options_for(folder)); },
              ThrowsMessage<error>(AllOf(HasSubstr("1005.jpg: corrupt JPEG"), HasSubstr("1100.jpg and others"),
                                         HasSubstr("3 of 200 images are broken"), HasSubstr("--broken-images skip"))));
  auto skipping = options_for(folder);
  skipping.skips_broken = true;
  const auto data = open_images(skipping);
  EXPECT_EQ(data.train->size(), 197);
  EXPECT_THAT(data.train->description(), AllOf(HasSubstr("197 JPEGs"), HasSubstr("skipped: 3 broken JPEGs")));
}

TEST(BrokenImages, OnlyBrokenOnesAreRefusedWhateverTheOption) {
  const temporary_folder folder;
  write_file(folder / "a/1.jpg", "x");
  auto o = options_for(folder);
  o.skips_broken = true;
  EXPECT_THAT([&] { open_images(o); },
              ThrowsMessage<error>(AllOf(HasSubstr("1 of 1 images are broken"), Not(HasSubstr("--broken")))));
}

TEST(BrokenImages, WhatOnlyDecodingFindsNamesItsFileOrIsStoodInForByTheNext) {
  const temporary_folder folder;
  write_file(folder / "a/1.jpg", damaged_pixels());
  write_file(folder / "b/2.jpg", jpeg_of_halves(32, 32));
  auto o = options_for(folder);
  std::vector<float> values(64);
  const auto refusing = open_images(o);
  EXPECT_THAT(
      [&] {
        refusing.train->load({0, 0, 0}, false, values.data());
      },
      ThrowsMessage<error>(AllOf(HasSubstr("a/1.jpg: corrupt JPEG"), HasSubstr("--broken-images skip"))));
  std::vector<std::string> said;
  o.skips_broken = true;
  o.warn = [&](const std::string& line) { said.push_back(line); };
  const auto skipping = open_images(o);
  std::vector<float> next(64);
  EXPECT_EQ(skipping.train->load({0, 0, 0}, false, values.data()), 1);
  EXPECT_EQ(skipping.train->load({0, 0, 1}, false, next.data()), 1);
  EXPECT_EQ(values, next);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], AllOf(HasSubstr("a/1.jpg"), HasSubstr("the next image stands in its place")));
}

TEST(JpegScan, AcceptsWhatCanBeRead) {
  const temporary_folder folder;
  const auto file = folder / "x.jpg";
  const auto good = jpeg_of(40, 30, jpeg_colours::rgb, {200, 100, 50});
  const std::vector<std::string> fine{good,
                                      jpeg_of(9, 9, jpeg_colours::cmyk, {1, 2, 3, 4}),
                                      jpeg_of(9, 9, jpeg_colours::grey, {7}),
                                      good + std::string(100, '\0'),                       // padding
                                      good + std::string(300'000, 'm'),                    // a film behind the picture
                                      good.substr(0, 2) + "\xff\xff\xff" + good.substr(3), // fill bytes
                                      with_orientation(good, 6)};
  for (const auto& bytes : fine) {
    write_file(file, bytes);
    EXPECT_EQ(scan_jpeg(file).fault, "");
    EXPECT_NO_THROW(read_jpeg(file));
  }
  write_file(file, good + std::string(300'000, 'm'));
  EXPECT_TRUE(scan_jpeg(file).is_late);
}

TEST(JpegScan, NamesWhatCannotBeRead) {
  const temporary_folder folder;
  const auto file = folder / "x.jpg";
  const auto good = jpeg_of(40, 30, jpeg_colours::rgb, {200, 100, 50});
  const auto frame = good.find("\xff\xc0");
  const auto changed = [&](std::size_t at, char to) {
    auto bytes = good;
    bytes[at] = to;
    return bytes;
  };
  const std::vector<std::pair<std::string, std::string>> broken{
      {"", "Empty input file"},
      {"RIFF1234WEBPVP8 ", "but a WebP"},
      {std::string("\0\0\0\x18"
                   "ftypheic",
                   12),
       "HEIF"},
      {"version https://git-lfs.github.com/spec/v1", "LFS pointer"},
      {"<html>", "web page"},
      {good.substr(0, good.size() - 2), "Premature end"},
      {good.substr(0, 12), "Premature end"},
      {good.substr(0, 2), "Premature end"},
      {changed(frame + 4, 12), "12 bits a sample, wanted 8"},
      {changed(frame + 1, '\xc3'), "lossless"},
      {changed(frame + 9, 2), "2 components"},
  };
  for (const auto& [bytes, words] : broken) {
    write_file(file, bytes);
    EXPECT_THAT(scan_jpeg(file).fault, HasSubstr(words));
    EXPECT_THROW(read_jpeg(file), error) << words;
  }
  EXPECT_THAT(scan_jpeg(folder / "nothing").fault, HasSubstr("No such file"));
  EXPECT_THAT(scan_jpeg(folder.path()).fault, HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((folder / "pipe.jpg").c_str(), 0600), 0);
  EXPECT_THAT(scan_jpeg(folder / "pipe.jpg").fault, HasSubstr("not a regular file"));
}

TEST(Orientation, IsReadInBothByteOrdersAndNonsenseIsNone) {
  const temporary_folder folder;
  const auto file = folder / "x.jpg";
  const auto good = jpeg_of_halves(16, 8);
  for (const bool is_big : {true, false}) {
    for (char orientation = 1; orientation <= 8; ++orientation) {
      write_file(file, with_orientation(good, orientation, is_big));
      EXPECT_EQ(scan_jpeg(file).orientation, orientation);
    }
    write_file(file, with_orientation(good, 9, is_big));
    EXPECT_EQ(scan_jpeg(file).orientation, 1);
  }
  auto cut = with_orientation(good, 6);
  cut[16] = '\x7f'; // the directory lies far behind the segment
  write_file(file, cut);
  EXPECT_EQ(scan_jpeg(file).orientation, 1);
}

// As the EXIF standard words it: where row 0 and column 0 of the stored picture are to be seen.
TEST(Orientation, TurnsThePictureAsTheStandardSays) {
  const rgb_image stored{2, 3, {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5}}; // 0 1 2 above 3 4 5
  const auto seen = [&](int orientation) {
    const auto image = upright(stored, orientation);
    std::vector<int> rows{static_cast<int>(image.height), static_cast<int>(image.width)};
    for (std::size_t i = 0; i < image.pixels.size(); i += 3)
      rows.push_back(image.pixels[i]);
    return rows;
  };
  using list = std::vector<int>;
  EXPECT_EQ(seen(1), (list{2, 3, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(seen(2), (list{2, 3, 2, 1, 0, 5, 4, 3})); // row 0 at the top, column 0 at the right
  EXPECT_EQ(seen(3), (list{2, 3, 5, 4, 3, 2, 1, 0})); // bottom, right
  EXPECT_EQ(seen(4), (list{2, 3, 3, 4, 5, 0, 1, 2})); // bottom, left
  EXPECT_EQ(seen(5), (list{3, 2, 0, 3, 1, 4, 2, 5})); // left, top
  EXPECT_EQ(seen(6), (list{3, 2, 3, 0, 4, 1, 5, 2})); // right, top
  EXPECT_EQ(seen(7), (list{3, 2, 5, 2, 4, 1, 3, 0})); // right, bottom
  EXPECT_EQ(seen(8), (list{3, 2, 2, 5, 1, 4, 0, 3})); // left, bottom
}

TEST(Orientation, IsIgnoredButCountedUnlessItIsToBeApplied) {
  const temporary_folder folder;
  write_file(folder / "a/1.jpg", with_orientation(jpeg_of_halves(32, 32), 6)); // black on the left, then above
  auto o = options_for(folder);
  std::vector<float> values(64);
  const auto ignoring = open_images(o);
  EXPECT_THAT(ignoring.train->description(), HasSubstr("1 with an EXIF orientation, which is not applied"));
  ignoring.train->load({0, 0, 0}, false, values.data());
  EXPECT_LT(values[56], values[7]); // lower left against upper right
  o.applies_orientation = true;
  const auto applying = open_images(o);
  EXPECT_THAT(applying.train->description(), HasSubstr("which is applied"));
  applying.train->load({0, 0, 0}, false, values.data());
  EXPECT_LT(values[7], values[56]);
}

} // namespace
} // namespace penstock::apps
