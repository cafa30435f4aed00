// AlexNet, as torchvision has it.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

model_entry alexnet_entry();

} // namespace penstock::apps
