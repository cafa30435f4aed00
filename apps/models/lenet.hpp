// LeNet: the small network of the first examples.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

model_entry lenet_entry();

} // namespace penstock::apps
