// Augmentation and conversion of images in memory.
#include "apps/data/image_set.hpp"

#include "apps/data/sample_random.hpp"
#include "kernels/check.hpp"

namespace penstock::apps {

image_set::image_set(stored_images images, image_recipe recipe, const data_options& options)
    : images_(std::move(images)), recipe_(std::move(recipe)),
      transform_(images_.channels, options.channels, options.image_size, recipe_.values), classes_(options.classes),
      augment_(options.augment) {
  check(images_.pixels.size() ==
            images_.labels.size() * static_cast<std::size_t>(images_.channels * images_.height * images_.width),
        "as many images as labels");
}

tensor_spec image_set::input() const {
  return {dtype::f32, {transform_.channels(), transform_.size(), transform_.size()}};
}

image_conversion image_set::conversion() const {
  std::string augmentation;
  const auto add = [&](const std::string& words) { augmentation += (augmentation.empty() ? "" : ", ") + words; };
  if (augment_ && recipe_.crop_padding > 0)
    add("random crop out of " + std::to_string(recipe_.crop_padding) + " black pixels on each side");
  if (augment_ && recipe_.flip) add("random flip");
  return {transform_.values(), describe_channels(images_.channels, transform_.channels()),
          describe_resize(images_.height, images_.width, transform_.size()),
          augmentation.empty() ? "none" : augmentation};
}

std::int64_t image_set::load(const actors::sample_key& key, bool training, float* input) const {
  check(key.index >= 0 && key.index < size(), "a sample's index lies within its data set");
  auto where = transform_.whole();
  if (training && augment_) {
    sample_random random(key);
    if (recipe_.crop_padding > 0) {
      where.shift_down = random.below(2 * recipe_.crop_padding + 1) - recipe_.crop_padding;
      where.shift_right = random.below(2 * recipe_.crop_padding + 1) - recipe_.crop_padding;
    }
    if (recipe_.flip) where.flip = random.below(2) == 1;
  }
  const auto area = images_.height * images_.width;
  const pixel_view image{images_.pixels.data() + key.index * images_.channels * area,
                         images_.channels,
                         images_.height,
                         images_.width,
                         area,
                         1};
  transform_.apply(image, where, input);
  return images_.labels[static_cast<std::size_t>(key.index)];
}

} // namespace penstock::apps
