// MNIST's IDX files. Format: http://yann.lecun.com/exdb/mnist: u32 big-endian magic and extents, then bytes.
#include "apps/data/byte_file.hpp"
#include "apps/data/image_set.hpp"
#include "kernels/check.hpp"
#include "kernels/text.hpp"

#include <array>
#include <cstdio>

namespace penstock::apps {
namespace {

namespace fs = std::filesystem;

struct idx_contents {
  std::vector<std::uint64_t> extents;
  std::vector<std::uint8_t> bytes;
};

std::string hex(std::uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", static_cast<unsigned>(value));
  return text.data();
}

std::uint32_t read_u32(byte_file& file) {
  std::array<std::uint8_t, 4> b{};
  file.read(b.data(), b.size());
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

idx_contents read_idx(const fs::path& path, std::uint32_t rank) {
  byte_file file(path);
  constexpr std::uint32_t unsigned_bytes = 0x0800;
  const auto magic = read_u32(file);
  if (magic != (unsigned_bytes | rank)) {
    file.fail("magic number " + hex(magic) + ", wanted " + hex(unsigned_bytes | rank) + " (IDX of unsigned bytes in " +
              std::to_string(rank) + (rank == 1 ? " dimension)" : " dimensions)"));
  }
  idx_contents contents;
  std::uint64_t total = 1;
  bool fits = true;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto extent = read_u32(file);
    if (extent == 0) file.fail("dimension " + std::to_string(i) + " of its header is 0");
    contents.extents.push_back(extent);
    fits = fits && !__builtin_mul_overflow(total, std::uint64_t{extent}, &total);
  }
  contents.bytes = file.take(fits ? total : UINT64_MAX);
  file.expect_end();
  return contents;
}

fs::path find(const fs::path& folder, const std::string& name, std::vector<std::string>& missing) {
  for (const auto& candidate : {folder / name, fs::path(folder / (name + ".gz"))}) {
    std::error_code reason; // set when it cannot be known: then opening it will say why
    if (fs::exists(candidate, reason) || reason) return candidate;
  }
  missing.push_back(name);
  return {};
}

std::unique_ptr<image_set> open_half(const std::string& kind, const char* half, const fs::path& images_path,
                                     const fs::path& labels_path, const normalization& values,
                                     const data_options& options) {
  auto labels = read_idx(labels_path, 1);
  for (std::size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] >= options.classes) {
      throw error(labels_path.string() + ": label " + std::to_string(labels.bytes[i]) + " at index " +
                  std::to_string(i) + ", wanted 0 to " + std::to_string(options.classes - 1));
    }
  }
  auto images = read_idx(images_path, 3);
  if (images.extents[0] != labels.extents[0]) {
    throw error(images_path.string() + ": " + std::to_string(images.extents[0]) + " images, but " +
                std::to_string(labels.extents[0]) + " labels in " + labels_path.filename().string());
  }
  stored_images stored;
  stored.height = static_cast<std::int64_t>(images.extents[1]);
  stored.width = static_cast<std::int64_t>(images.extents[2]);
  stored.description = kind + " " + half + ": " + std::to_string(images.extents[0]) + " grey images of " +
                       std::to_string(stored.height) + "x" + std::to_string(stored.width) + " from " +
                       images_path.string();
  stored.pixels = std::move(images.bytes);
  stored.labels = std::move(labels.bytes);
  return std::make_unique<image_set>(std::move(stored), image_recipe{values}, options);
}

} // namespace

image_pair open_idx(const std::string& kind, const fs::path& folder, const normalization& values,
                    const data_options& options) {
  require_folder(folder);
  std::vector<std::string> missing;
  const auto train_images = find(folder, "train-images-idx3-ubyte", missing);
  const auto train_labels = find(folder, "train-labels-idx1-ubyte", missing);
  const auto test_images = find(folder, "t10k-images-idx3-ubyte", missing);
  const auto test_labels = find(folder, "t10k-labels-idx1-ubyte", missing);
  if (!missing.empty()) {
    throw error(folder.string() + ": missing " + join(missing, ", ") + " (looked for each with and without .gz)");
  }
  auto training = open_half(kind, "train", train_images, train_labels, values, options);
  const auto conversion = training->conversion();
  return {std::move(training), open_half(kind, "test", test_images, test_labels, values, options), conversion};
}

} // namespace penstock::apps
