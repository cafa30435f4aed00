// The model that stages compute, of the one that a run was given.
#pragma once

#include "actors/run_options.hpp"
#include "kernels/model.hpp"

#include <memory>

namespace penstock::actors {

/// With the label smoothing that was asked for.
inline std::shared_ptr<const model> as_trained(const std::shared_ptr<const model>& net, const run_options& options) {
  return options.label_smoothing > 0 ? std::make_shared<const model>(net->smoothed(options.label_smoothing)) : net;
}

} // namespace penstock::actors
