// A folder of JPEGs per class, decoded when a sample is loaded.
#include "apps/data/byte_file.hpp"
#include "apps/data/formats.hpp"
#include "apps/data/jpeg.hpp"
#include "apps/data/sample_random.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <cctype>

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;

// The share of the resized shorter side that a crop takes: ImageNet's usual 224 of 256.
constexpr double crop_share = 224.0 / 256.0;

struct listed_image {
  std::string file;
  std::int64_t label = 0;
};

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Names without the hidden ones, in byte order.
std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code reason;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, reason), end; !reason && at != end; at.increment(reason)) {
    auto name = at->path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
  }
  if (reason) throw error(folder.string() + ": cannot read: " + reason.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_jpeg(const std::string& name) {
  auto extension = fs::path(name).extension().string();
  for (auto& c : extension)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".jpg" || extension == ".jpeg";
}

std::vector<std::string> class_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (auto& name : names_in(folder)) {
    if (is_folder(folder / name)) names.push_back(std::move(name));
  }
  return names;
}

void list_class(const fs::path& folder, std::int64_t label, std::vector<listed_image>& images) {
  const auto before = images.size();
  for (const auto& name : names_in(folder)) {
    if (is_jpeg(name) && !is_folder(folder / name)) images.push_back({(folder / name).string(), label});
  }
  if (images.size() == before) throw error(folder.string() + ": a class without images, wanted .jpg or .jpeg files");
}

std::vector<listed_image> list_images(const fs::path& folder, const std::vector<std::string>& classes) {
  std::vector<listed_image> images;
  for (const auto& name : class_names(folder)) {
    const auto place = std::lower_bound(classes.begin(), classes.end(), name);
    if (place == classes.end() || *place != name) {
      throw error((folder / name).string() + ": no class of this name among the training images");
    }
    list_class(folder / name, place - classes.begin(), images);
  }
  if (images.empty()) throw error(folder.string() + ": no class folders in it");
  return images;
}

class image_folder final : public actors::dataset {
public:
  image_folder(std::string description, std::vector<listed_image> images, const data_options& options)
      : description_(std::move(description)), images_(std::move(images)),
        transform_(3, options.channels, options.image_size, imagenet_normalization()), classes_(options.classes),
        augment_(options.augment) {}

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
    const auto& listed = images_[static_cast<std::size_t>(key.index)];
    const auto image = read_jpeg(listed.file);
    const pixel_view view{image.pixels.data(), 3, image.height, image.width, 1, 3};
    transform_.apply(view, place(image, key, training && augment_), input);
    return listed.label;
  }

private:
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
};

std::unique_ptr<image_folder> open_half(const char* half, const fs::path& folder,
                                        const std::vector<std::string>& classes, const data_options& options) {
  auto images = list_images(folder, classes);
  auto description = std::string("imagefolder ") + half + ": " + std::to_string(images.size()) + " JPEGs of " +
                     std::to_string(classes.size()) + " classes from " + folder.string();
  return std::make_unique<image_folder>(std::move(description), std::move(images), options);
}

} // namespace

data_pair open_image_folder(const fs::path& folder, const data_options& options) {
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
  data_pair pair;
  auto training = open_half("train", train, classes, options);
  pair.conversion = training->conversion();
  pair.train = std::move(training);
  for (const char* name : {"val", "test"}) {
    if (split && !pair.test && is_folder(folder / name)) pair.test = open_half(name, folder / name, classes, options);
  }
  return pair;
}

} // namespace penstock::apps
