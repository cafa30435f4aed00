// Resize, crop, flip and normalise against numbers computed by hand.
#include "apps/data/image_transform.hpp"
#include "kernels/check.hpp"

#include <gmock/gmock.h>

namespace penstock::apps {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

// Mean 0 and deviation 1/255 leave pixel values as they are.
normalization none(std::size_t channels = 1) {
  return {std::vector<float>(channels, 0), std::vector<float>(channels, 1.0F / 255)};
}

pixel_view grey(const std::vector<std::uint8_t>& pixels, std::int64_t height, std::int64_t width) {
  return {pixels.data(), 1, height, width, height * width, 1};
}

std::vector<float> shown(const pixel_view& image, std::int64_t size, const placement& where) {
  std::vector<float> out(static_cast<std::size_t>(size * size));
  image_transform(1, 1, size, none()).apply(image, where, out.data());
  return out;
}

TEST(ImageTransform, LeavesPixelsOfTheRightSizeAlone) {
  const std::vector<std::uint8_t> pixels{1, 2, 3, 250};
  EXPECT_THAT(shown(grey(pixels, 2, 2), 2, {2, 2}), Pointwise(testing::FloatEq(), {1, 2, 3, 250}));
}

// interpolate(size=4, mode="bilinear", align_corners=False) of [[0, 40], [80, 120]]: a position is a quarter, three
// quarters between the two, or at the edge.
TEST(ImageTransform, EnlargesAsPyTorchInterpolates) {
  const std::vector<std::uint8_t> pixels{0, 40, 80, 120};
  const std::vector<float> wanted{0,  10, 30,  40,  //
                                  20, 30, 50,  60,  //
                                  60, 70, 90,  100, //
                                  80, 90, 110, 120};
  EXPECT_THAT(shown(grey(pixels, 2, 2), 4, {4, 4}), Pointwise(FloatNear(1e-4F), wanted));
}

// 3 -> 4: centres at (o + 0.5) * 0.75 - 0.5 = -0.125, 0.625, 1.375, 2.125.
TEST(ImageTransform, EnlargesByAFraction) {
  const std::vector<std::uint8_t> pixels{0, 80, 160, 0, 80, 160, 0, 80, 160};
  const auto out = shown(grey(pixels, 3, 3), 4, {4, 4});
  EXPECT_THAT(std::vector<float>(out.begin(), out.begin() + 4), Pointwise(FloatNear(1e-4F), {0, 50, 110, 160}));
}

// 4 -> 2 with a filter twice as wide: centre 1, weights of pixel centres 0.5, 1.5, 2.5 are 0.75, 0.75, 0.25 of 1.75.
TEST(ImageTransform, ShrinksWithAWiderFilter) {
  const std::vector<std::uint8_t> row{10, 20, 40, 80};
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 4; ++i)
    pixels.insert(pixels.end(), row.begin(), row.end());
  const float left = (0.75F * 10 + 0.75F * 20 + 0.25F * 40) / 1.75F;
  const float right = (0.25F * 20 + 0.75F * 40 + 0.75F * 80) / 1.75F;
  EXPECT_THAT(shown(grey(pixels, 4, 4), 2, {2, 2}), Pointwise(FloatNear(1e-4F), {left, right, left, right}));
}

TEST(ImageTransform, ShowsAPartOfTheResizedImage) {
  const std::vector<std::uint8_t> pixels{0, 40, 80, 120};
  EXPECT_THAT(shown(grey(pixels, 2, 2), 2, {4, 4, 1, 2}), Pointwise(FloatNear(1e-4F), {50, 60, 90, 100}));
}

TEST(ImageTransform, FlipsLeftAndRight) {
  const std::vector<std::uint8_t> pixels{1, 2, 3, 4};
  EXPECT_THAT(shown(grey(pixels, 2, 2), 2, {2, 2, 0, 0, 0, 0, true}), Pointwise(FloatNear(1e-4F), {2, 1, 4, 3}));
}

TEST(ImageTransform, ShiftsInBlackFromOutside) {
  const std::vector<std::uint8_t> pixels{1, 2, 3, 4};
  EXPECT_THAT(shown(grey(pixels, 2, 2), 2, {2, 2, 0, 0, 1, 0}), Pointwise(FloatNear(1e-4F), {0, 0, 1, 2}));
  EXPECT_THAT(shown(grey(pixels, 2, 2), 2, {2, 2, 0, 0, 0, -1}), Pointwise(FloatNear(1e-4F), {2, 0, 4, 0}));
  EXPECT_THAT(shown(grey(pixels, 2, 2), 2, {2, 2, 0, 0, 5, 5}), Pointwise(FloatNear(1e-4F), {0, 0, 0, 0}));
}

TEST(ImageTransform, ShowsAnyPartOfAnImageOfItsOwnSize) {
  std::vector<std::uint8_t> pixels;
  for (std::uint8_t i = 1; i <= 20; ++i)
    pixels.push_back(i);
  const auto pixel = [&](std::int64_t row, std::int64_t column, const placement& p) {
    const auto y = row - p.shift_down;
    const auto x = column - p.shift_right;
    const bool is_there = row < 4 && column < 5 && y >= 0 && y < 4 && x >= 0 && x < 5;
    return is_there ? static_cast<float>(pixels[static_cast<std::size_t>(y * 5 + x)]) : 0.0F;
  };
  for (std::int64_t variant = 0; variant < 2 * 3 * 3 * 5 * 5; ++variant) {
    const placement p{4, 5, variant / 2 % 3, variant / 6 % 3, variant / 18 % 5 - 2, variant / 90 - 2, variant % 2 == 1};
    std::vector<float> wanted;
    for (std::int64_t y = 0; y < 3; ++y)
      for (std::int64_t x = 0; x < 3; ++x)
        wanted.push_back(pixel(p.top + y, p.left + (p.flip ? 2 - x : x), p));
    EXPECT_EQ(shown(grey(pixels, 4, 5), 3, p), wanted) << "variant " << variant;
  }
}

TEST(ImageTransform, NormalisesEachChannelOfPlanarAndInterleavedPixels) {
  const std::vector<std::uint8_t> planar{255, 0, 51};
  const image_transform transform(3, 3, 1, {{0.5F, 0.25F, 0.2F}, {0.5F, 0.25F, 0.1F}});
  std::vector<float> out(3);
  transform.apply({planar.data(), 3, 1, 1, 1, 1}, {1, 1}, out.data());
  EXPECT_THAT(out, ElementsAre(FloatNear(1, 1e-6F), FloatNear(-1, 1e-6F), FloatNear(0, 1e-6F)));
  const std::vector<std::uint8_t> interleaved{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  out.resize(12);
  image_transform(3, 3, 2, none(3)).apply({interleaved.data(), 3, 2, 2, 1, 3}, {2, 2}, out.data());
  EXPECT_THAT(out, Pointwise(FloatNear(1e-4F), {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12}));
}

TEST(ImageTransform, RefusesColourForOddNumbersOfChannels) {
  EXPECT_THROW(image_transform(3, 4, 8, none(3)), usage_error);
  EXPECT_NO_THROW(image_transform(1, 4, 8, none()));
}

} // namespace
} // namespace penstock::apps
