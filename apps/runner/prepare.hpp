// From options to what a run needs: the model and the data that fit each other.
#pragma once

#include "actors/trainer.hpp"
#include "apps/data/data.hpp"
#include "apps/plugins/plugin_registry.hpp"
#include "apps/runner/options.hpp"

namespace penstock::apps {

struct prepared_run {
  actors::run_options options;
  data_pair data;
  actors::run_inputs inputs; ///< points into data
  std::int64_t steps_per_epoch = 0;
  std::vector<std::string> notes; ///< for the log
};

/// Builds the model (with the plug-ins' layers) and opens the data. Opens nothing for writing. Throws usage_error and
/// penstock::error, one line each.
prepared_run prepare(const app_options& options, const plugin_registry& plugins);

/// What can be said of a data set before it is opened, so that a network can be made for it. 0: not said.
struct data_facts {
  std::int64_t classes = 0;
  std::int64_t image_size = 0;
  std::int64_t channels = 0;
};

/// `tensors:` files say their image size and channels, folders of images their classes. Throws penstock::error for a
/// tensors file that cannot be read.
data_facts facts_of(const std::string& spec);

} // namespace penstock::apps
