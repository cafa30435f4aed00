// Words of the control plane's lines for people.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace penstock::transport {

/// Text from elsewhere, fit for one line: control characters become blanks, and at most `most` bytes are left.
std::string one_line(std::string_view text, std::size_t most);

/// "5 s", "300 ms".
std::string text_of(std::chrono::milliseconds duration);

} // namespace penstock::transport
