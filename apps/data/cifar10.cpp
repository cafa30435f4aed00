// CIFAR-10's binary version: records of one label and 3 planes of 32x32 bytes.
#include "apps/data/byte_file.hpp"
#include "apps/data/image_set.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t side = 32;
constexpr std::uint64_t pixel_bytes = 3 * side * side;
constexpr std::uint64_t record_bytes = 1 + pixel_bytes;

void append_batch(const fs::path& path, std::int64_t classes, stored_images& images) {
  byte_file file(path);
  if (file.stored_bytes() == 0 || file.stored_bytes() % record_bytes != 0) {
    file.fail(std::to_string(file.stored_bytes()) + " bytes, wanted a whole number of records of " +
              std::to_string(record_bytes) + " (truncated?)");
  }
  const auto records = file.stored_bytes() / record_bytes;
  const auto bytes = file.take(file.stored_bytes());
  images.labels.reserve(images.labels.size() + records);
  images.pixels.reserve(images.pixels.size() + records * pixel_bytes);
  for (std::uint64_t i = 0; i < records; ++i) {
    const auto* record = bytes.data() + i * record_bytes;
    if (record[0] >= classes) {
      file.fail("label " + std::to_string(record[0]) + " at index " + std::to_string(i) + ", wanted 0 to " +
                std::to_string(classes - 1));
    }
    images.labels.push_back(record[0]);
    images.pixels.insert(images.pixels.end(), record + 1, record + record_bytes);
  }
}

std::unique_ptr<image_set> open_half(const fs::path& folder, const char* half, const std::vector<std::string>& names,
                                     const data_options& options) {
  stored_images images;
  images.channels = 3;
  images.height = images.width = side;
  for (const auto& name : names)
    append_batch(folder / name, options.classes, images);
  images.description = std::string("cifar10 ") + half + ": " + std::to_string(images.labels.size()) +
                       " colour images of 32x32 from " + folder.string();
  return std::make_unique<image_set>(std::move(images), image_recipe{cifar10_normalization(), 4, true}, options);
}

} // namespace

image_pair open_cifar10(const fs::path& folder, const data_options& options) {
  require_folder(folder);
  const std::vector<std::string> train{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                       "data_batch_5.bin"};
  const std::vector<std::string> test{"test_batch.bin"};
  std::vector<std::string> missing;
  for (const auto* names : {&train, &test}) {
    for (const auto& name : *names) {
      std::error_code reason; // set when it cannot be known: then opening it will say why
      if (!fs::exists(folder / name, reason) && !reason) missing.push_back(name);
    }
  }
  if (!missing.empty()) throw error(folder.string() + ": missing " + join(missing, ", "));
  auto training = open_half(folder, "train", train, options);
  const auto conversion = training->conversion();
  return {std::move(training), open_half(folder, "test", test, options), conversion};
}

} // namespace penstock::apps
