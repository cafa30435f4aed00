// What can be known of a data set without opening it.
#pragma once

#include "apps/data/text_options.hpp"

#include <cstdint>
#include <string>

namespace penstock::apps {

/// What can be said of a data set before it is opened, so that a network can be made for it. 0: not said.
struct data_facts {
  std::int64_t classes = 0;
  std::int64_t image_size = 0;
  std::int64_t channels = 0;
  std::int64_t vocabulary = 0; ///< the tokenizer's, or what a text has by itself
  std::int64_t frame_size = 0; ///< features of a clip's frame
};

/// A tokenizer says how many tokens it knows, `tensors:` files say their image size and channels, folders of images
/// their classes. Throws penstock::error for a tensors file that cannot be read.
data_facts facts_of(const std::string& spec, const text_options& text = {});

} // namespace penstock::apps
