// The lines of a text file that somebody else made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::apps {

/// The lines without their ends, which may be of either kind, and without a mark of byte order before the first. Throws
/// usage_error that names the file and the line where it is no UTF-8, and where there is no line at all.
std::vector<std::string> lines_of(std::string_view text, const std::string& file);

} // namespace penstock::apps
