// The text of `penstock models`.
#pragma once

#include "apps/models/registry.hpp"

namespace penstock::apps {

/// A table of all models with their default options: name, parameters, layers, image sizes, GFLOP forward per image.
std::string describe_models();

/// The layers of a model in order: name, kind, output shape (without the batch), parameters, GFLOP forward per image.
std::string describe_model(const model& network);

/// Floating-point operations of the forward pass of one image.
double forward_flops(const model& network);

} // namespace penstock::apps
