// Vision transformers, as torchvision or Hugging Face names them.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

model_entry vit_b_16_entry();

} // namespace penstock::apps
