// Decoded images in memory, a byte a value; converted when loaded.
#pragma once

#include "apps/data/formats.hpp"

namespace penstock::apps {

/// Images of one size with their labels.
struct stored_images {
  std::string description;
  std::int64_t channels = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels; ///< (N, channels, height, width)
  std::vector<std::uint8_t> labels; ///< (N), already checked
};

struct image_recipe {
  normalization values;
  std::int64_t crop_padding = 0; ///< augmentation: crop at random out of so many black pixels on each side
  bool flip = false;             ///< augmentation: mirror one image in two
};

/// Augments at the stored size, then resizes. Immutable after construction.
class image_set final : public actors::labelled_images {
public:
  image_set(stored_images images, image_recipe recipe, const data_options& options);

  std::int64_t size() const override { return static_cast<std::int64_t>(images_.labels.size()); }
  tensor_spec input() const override;
  std::int64_t classes() const override { return classes_; }
  std::int64_t load(const actors::sample_key& key, bool training, float* input) const override;
  std::string description() const override { return images_.description; }
  image_conversion conversion() const;

private:
  stored_images images_;
  image_recipe recipe_;
  image_transform transform_;
  std::int64_t classes_;
  bool augment_;
};

} // namespace penstock::apps
