// The whole of an app but its model's name.
#pragma once

#include <string_view>

namespace penstock::apps {

/// Reads the command line, trains, reports. Lets no exception out. Returns the exit code: 0 done, 1 failed, 2 usage,
/// 130 after SIGINT, 143 after SIGTERM. `model` may be one that a plug-in named on the command line brings.
int run_app(std::string_view model, int argc, char** argv);

} // namespace penstock::apps
