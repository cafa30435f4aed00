// The whole of an app but its model's name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace penstock::actors {
class layer_actor_factory;
}

namespace penstock::apps {

/// What a program adds to a run besides the command line.
struct app_additions {
  std::vector<std::shared_ptr<const actors::layer_actor_factory>> layer_actors;
};

/// Reads the command line, trains, reports. Lets no exception out. Returns the exit code: 0 done, 1 failed, 2 usage,
/// 130 after SIGINT, 143 after SIGTERM. `model` may be one that a plug-in named on the command line brings.
int run_app(std::string_view model, int argc, char** argv, const app_additions& additions = {});

} // namespace penstock::apps
