// Which option the planner speaks of when it refuses a request.
#pragma once

#include <string>

namespace penstock::apps {

/// The planner's words with the option before them: "stages is 41, wanted 0 to 40" becomes "--stages: stages is 41,
/// ...". As they are where they are about no option.
std::string request_fault(const std::string& words);

} // namespace penstock::apps
