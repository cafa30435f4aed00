// Reads a JPEG file into bytes of red, green and blue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace penstock::apps {

struct rgb_image {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels; ///< (height, width, 3)
};

inline constexpr std::int64_t most_jpeg_pixels = 100'000'000;

/// Grey, YCbCr, RGB, CMYK and YCCK. Throws penstock::error naming the file when it is no JPEG, truncated, corrupt, or
/// of more than 100 million pixels. May be called from several threads.
rgb_image read_jpeg(const std::filesystem::path& file);

/// The picture as EXIF's orientation (1 to 8) wants it seen: mirrored, turned, or both.
rgb_image upright(rgb_image image, int orientation);

} // namespace penstock::apps
