// A folder of JPEGs per class, decoded when a sample is loaded.
#include "apps/data/byte_file.hpp"
#include "apps/data/formats.hpp"
#include "apps/data/image_list.hpp"
#include "apps/data/jpeg.hpp"
#include "apps/data/sample_random.hpp"
#include "kernels/check.hpp"

#include <algorithm>

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;

// The share of the resized shorter side that a crop takes: ImageNet's usual 224 of 256.
constexpr double crop_share = 224.0 / 256.0;

// Broken images beside each other that are taken for damage of single files, not of the data set.
constexpr std::size_t most_in_a_row = 100;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

class image_folder final : public actors::labelled_images {
public:
  image_folder(std::string description, std::vector<listed_image> images, const data_options& options)
      : description_(std::move(description)), images_(std::move(images)),
        transform_(3, options.channels, options.image_size, imagenet_normalization()), classes_(options.classes),
        augment_(options.augment), turns_(options.applies_orientation), skips_broken_(options.skips_broken),
        warn_(options.warn) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(images_.size()); }
  tensor_spec input() const override {
    return {dtype::f32, {transform_.channels(), transform_.size(), transform_.size()}};
  }
  std::int64_t classes() const override { return classes_; }
  std::string description() const override { return description_; }
  image_conversion conversion() const {
    const auto crop = std::to_string(transform_.size());
    return {transform_.values(), describe_channels(3, transform_.channels()),
            "bilinear with antialiasing, the shorter side to " + std::to_string(shorter_side()) + ", then the middle " +
                crop + "x" + crop,
            augment_ ? "a random " + crop + "x" + crop + " instead of the middle, random flip" : "none"};
  }

  std::int64_t load(const actors::sample_key& key, bool training, float* input) const override {
    check(key.index >= 0 && key.index < size(), "a sample's index lies within its data set");
    const auto& [listed, image] = decoded(static_cast<std::size_t>(key.index));
    const pixel_view view{image.pixels.data(), 3, image.height, image.width, 1, 3};
    transform_.apply(view, place(image, key, training && augment_), input);
    return listed.label;
  }

private:
  // What the markers did not tell is found here. Where broken images are skipped the next one that can be read stands
  // in for it, so that every run has the same samples in the same places.
  std::pair<listed_image, rgb_image> decoded(std::size_t index) const {
    for (std::size_t tries = 0;; ++tries) {
      const auto& listed = images_[(index + tries) % images_.size()];
      try {
        auto image = read_jpeg(listed.file);
        return {listed, turns_ ? upright(std::move(image), listed.orientation) : std::move(image)};
      } catch (const error& fault) {
        if (!skips_broken_)
          throw error(std::string(fault.what()) + " (--broken-images skip puts the next image in its place)");
        if (tries + 1 >= most_in_a_row || tries + 1 >= images_.size())
          throw error(std::string(fault.what()) + "; so are the " + std::to_string(tries) + " images before it");
        warn(fault.what());
      }
    }
  }

  void warn(const std::string& fault) const {
    if (warn_) warn_(fault + ": the next image stands in its place");
  }

  std::int64_t shorter_side() const {
    const auto crop = transform_.size();
    return std::max(crop, static_cast<std::int64_t>(static_cast<double>(crop) / crop_share + 0.5));
  }

  // The shorter side is resized to what the crop is a share of; the longer keeps the picture's form.
  placement place(const rgb_image& image, const actors::sample_key& key, bool random_crop) const {
    const auto crop = transform_.size();
    const auto shorter = shorter_side();
    placement where;
    const auto least = std::min(image.height, image.width);
    where.height = shorter * image.height / least;
    where.width = shorter * image.width / least;
    where.top = (where.height - crop) / 2;
    where.left = (where.width - crop) / 2;
    if (random_crop) {
      sample_random random(key);
      where.top = random.below(where.height - crop + 1);
      where.left = random.below(where.width - crop + 1);
      where.flip = random.below(2) == 1;
    }
    return where;
  }

  std::string description_;
  std::vector<listed_image> images_;
  image_transform transform_;
  std::int64_t classes_;
  bool augment_;
  bool turns_;
  bool skips_broken_;
  std::function<void(const std::string&)> warn_;
};

// What a person would want to know of the folder: nothing is left out, skipped or ignored without a word.
std::string describe(const char* half, const fs::path& folder, std::size_t classes, const image_list& list,
                     const data_options& options) {
  auto text = std::string("imagefolder ") + half + ": " + std::to_string(list.images.size()) + " JPEGs of " +
              std::to_string(classes) + " classes from " + folder.string();
  if (!list.left_out.empty()) text += "; left out: " + list.left_out + " (only JPEGs in CLASS folders are read)";
  if (!list.skipped.empty()) text += "; skipped: " + list.skipped;
  if (list.turned > 0)
    text += "; " + std::to_string(list.turned) + " with an EXIF orientation, which is " +
            (options.applies_orientation ? "applied" : "not applied (as in torchvision; --exif-orientation apply)");
  return text;
}

std::unique_ptr<image_folder> open_half(const char* half, const fs::path& folder,
                                        const std::vector<std::string>& classes, const data_options& options) {
  auto list = list_images(folder, classes, options.skips_broken);
  auto description = describe(half, folder, classes.size(), list, options);
  return std::make_unique<image_folder>(std::move(description), std::move(list.images), options);
}

} // namespace

image_pair open_image_folder(const fs::path& folder, const data_options& options) {
  require_folder(folder);
  const bool split = is_folder(folder / "train");
  const auto train = split ? folder / "train" : folder;
  const auto classes = class_names(train);
  if (classes.empty()) {
    throw error(train.string() + ": no class folders in it, wanted " +
                (split ? "CLASS/*.jpg" : "train/CLASS/*.jpg or CLASS/*.jpg"));
  }
  if (static_cast<std::int64_t>(classes.size()) > options.classes) {
    throw error(train.string() + ": " + std::to_string(classes.size()) + " class folders, but the network has " +
                std::to_string(options.classes) + " classes");
  }
  image_pair pair;
  auto training = open_half("train", train, classes, options);
  pair.conversion = training->conversion();
  pair.train = std::move(training);
  for (const char* name : {"val", "test"}) {
    if (split && !pair.test && is_folder(folder / name)) pair.test = open_half(name, folder / name, classes, options);
  }
  return pair;
}

} // namespace penstock::apps
