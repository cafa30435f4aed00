// In words.
#include "apps/data/conversion.hpp"

#include <array>
#include <charconv>

namespace penstock::apps {

namespace {

std::string list_of(const std::vector<float>& values) {
  std::string text;
  for (const float value : values) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    text += (text.empty() ? "" : ", ") + std::string(digits.data(), end.ptr);
  }
  return text;
}

std::string extents(std::int64_t height, std::int64_t width) {
  return std::to_string(height) + "x" + std::to_string(width);
}

} // namespace

std::string describe_channels(std::int64_t stored, std::int64_t channels) {
  if (stored == 3) return channels == 3 ? "colours" : "colours made grey (0.299, 0.587, 0.114)";
  return channels == 1 ? "grey" : "grey repeated to " + std::to_string(channels) + " channels";
}

std::string describe(const image_conversion& c) {
  return "pixels / 255, mean " + list_of(c.values.mean) + ", deviation " + list_of(c.values.deviation) + "; " +
         c.channels + "; resize: " + c.resize + "; augmentation: " + c.augmentation;
}

std::string describe_resize(std::int64_t height, std::int64_t width, std::int64_t size) {
  if (height == size && width == size) return "none";
  return "bilinear with antialiasing, " + extents(height, width) + " to " + extents(size, size);
}

} // namespace penstock::apps
