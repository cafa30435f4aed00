// The VGG networks without batch normalisation, as torchvision has them.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

model_entry vgg11_entry();
model_entry vgg16_entry();

} // namespace penstock::apps
