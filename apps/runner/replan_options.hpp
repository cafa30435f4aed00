// `--replan` and `--control`: how a plan is to change while a run trains.
#pragma once

#include "transport/launch/launch.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::apps {

/// What one `--replan STEP:FILE` says.
struct change_request {
  std::int64_t step = 0; ///< minibatches of the whole run after which the plan takes over
  std::string file;
};

/// Ascending steps. Throws usage_error for a text that is no STEP:FILE, a step below 1 and two at one step.
std::vector<change_request> parse_changes(const std::vector<std::string>& texts);

/// "after step 40: other.json", to begin a line about a change with.
std::string text_of(const change_request& change);

/// A step in the words of a command line; `name` is whose it is. Throws usage_error.
std::int64_t parse_step(const std::string& name, const std::string& text);

/// Where a run listens, or is asked, from "[HOST:]PORT": the loopback unless a host is named, `least_port` 0 where any
/// free one will do. Throws usage_error.
transport::launch parse_control(const std::string& text, int least_port);

} // namespace penstock::apps
