// Inception-v3, as torchvision has it.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

model_entry inception_v3_entry();

} // namespace penstock::apps
