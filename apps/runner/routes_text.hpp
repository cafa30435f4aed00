// Who is where in a job, and how its ranks reach each other, in a few lines for any number of ranks.
#pragma once

#include "transport/control/control_plane.hpp"

#include <string>
#include <vector>

namespace penstock::apps {

/// A line for each host: "a: ranks 0-31, processes 4001-4032", both in the same order.
std::vector<std::string> members_text(const std::vector<transport::member>& members);

/// What a rank says of its routes, by peer (endpoint::route_to), short where many are the same.
std::string pack_routes(const std::vector<std::string>& of_peers);
/// The same back. Throws penstock::error when it is not that of `size` peers.
std::vector<std::string> unpack_routes(const std::string& packed, std::size_t size);

/// How pairs of ranks inside and between hosts reach each other, routes[r][p] being the way from rank r to rank p: "all
/// pairs: shared memory (posix, cma)", or a line for each of the two; pairs that differ from most follow, at most a
/// few by name.
std::vector<std::string> routes_text(const std::vector<transport::member>& members,
                                     const std::vector<std::vector<std::string>>& routes);

} // namespace penstock::apps
