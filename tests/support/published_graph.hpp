// PipeDream's published profiles, where the shared data is there.
#pragma once

#include <optional>
#include <string>

namespace penstock::test {

/// The text of pipedream-profiles/NAME.txt in the data of the folder that PENSTOCK_SHARED names, else of a `shared`
/// folder beside or above the sources; none where it is absent.
std::optional<std::string> published_graph(const std::string& name);

} // namespace penstock::test
