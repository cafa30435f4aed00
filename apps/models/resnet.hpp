// The residual networks, as torchvision has them.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

model_entry resnet18_entry();
model_entry resnet50_entry();

} // namespace penstock::apps
