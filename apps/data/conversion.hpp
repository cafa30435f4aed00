// What is done to stored images before a network sees them, for whoever evaluates the weights elsewhere.
#pragma once

#include "apps/data/image_transform.hpp"

#include <optional>
#include <string>

namespace penstock::apps {

/// Inputs are (pixel / 255 - mean) / deviation, after resizing.
struct image_conversion {
  normalization values;     ///< of each channel as normalised: one where grey is repeated or made
  std::string channels;     ///< of describe_channels
  std::string resize;       ///< "none", or how: "bilinear with antialiasing, 28x28 to 32x32"
  std::string augmentation; ///< of training samples: "none", or what
};

/// What becomes of the stored channels, 1 or 3, where a network takes so many.
std::string describe_channels(std::int64_t stored, std::int64_t channels);

/// "pixels / 255, mean 0.286, deviation 0.353; grey; resize: none; augmentation: none".
std::string describe(const image_conversion& conversion);

/// "bilinear with antialiasing, 28x28 to 32x32", as `size` squares are made of stored images; "none" where they are it.
std::string describe_resize(std::int64_t height, std::int64_t width, std::int64_t size);

} // namespace penstock::apps
