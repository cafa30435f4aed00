// Data sets by specification.
#pragma once

#include "actors/labelled_images.hpp"
#include "apps/data/conversion.hpp"
#include "apps/data/text_options.hpp"
#include "kernels/model.hpp"

#include <functional>
#include <memory>
#include <string>

namespace penstock::apps {

struct data_options {
  std::string spec; ///< "fashion-mnist:DIR", "idx:DIR", "cifar10:DIR", "imagefolder:DIR", "tensors:FILE", "synthetic"
  std::int64_t image_size = 28; ///< what the network takes
  std::int64_t channels = 1;    ///< what the network takes: grey is repeated
  std::int64_t classes = 10;    ///< labels must lie below; the folders of an imagefolder must not be more
  std::uint64_t seed = 0;       ///< of `synthetic`
  bool augment = true;          ///< crop and flip where the data set's usual recipe has them
  std::int64_t synthetic_samples = 1024;
  bool skips_broken = false;        ///< images of an imagefolder that cannot be read: left out, else refused
  bool applies_orientation = false; ///< EXIF's, of an imagefolder; torchvision does not
  const model* net = nullptr;       ///< a sequence model, whose inputs the data set fills; null: images
  text_options text{};              ///< for sequences
  std::function<void(const std::string&)> warn{}; ///< of what is found broken while samples are loaded; any thread
};

struct data_pair {
  std::unique_ptr<actors::dataset> train;
  std::unique_ptr<actors::dataset> test;      ///< null where the specification has none
  std::optional<image_conversion> conversion; ///< of both; none where values are taken as they are, or are no images
};

/// The same where it is known to be images.
struct image_pair {
  std::unique_ptr<actors::labelled_images> train;
  std::unique_ptr<actors::labelled_images> test;
  std::optional<image_conversion> conversion;
};

/// Throws usage_error for a specification of the wrong form (with the nearest kind) and penstock::error for files that
/// are missing, unreadable, truncated or corrupt, each in one line that names the file.
image_pair open_images(const data_options& options);
data_pair open_data(const data_options& options);

} // namespace penstock::apps
