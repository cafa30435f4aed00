// The images of a folder with a folder for each class: which are read, which are left out, which are broken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace penstock::apps {

struct listed_image {
  std::string file;
  std::int64_t label = 0;
  int orientation = 1; ///< EXIF's, 1 to 8
};

struct image_list {
  std::vector<listed_image> images; ///< by class, then by name
  std::int64_t turned = 0;          ///< of them with an orientation other than 1
  std::string left_out;             ///< "3 PNG files and 2 nested folders"; "" where nothing is
  std::string skipped;              ///< broken ones: "2 broken JPEGs (a/1.jpg: ...)"; "" where none is
};

/// The names of the class folders in byte order: all but hidden ones.
std::vector<std::string> class_names(const std::filesystem::path& folder);

/// Lists FOLDER/CLASS/*.jpg and *.jpeg, and looks at each file's markers, in as many threads as there are cores. Throws
/// penstock::error for a class that `classes` (sorted) lacks, for a class without images, and, unless `skips_broken`,
/// for images that are broken: the first by name, the others counted.
image_list list_images(const std::filesystem::path& folder, const std::vector<std::string>& classes, bool skips_broken);

} // namespace penstock::apps
