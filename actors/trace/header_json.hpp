// The trace's header as the JSON text that the file carries.
#pragma once

#include "actors/trace/record.hpp"

#include <string>
#include <string_view>

namespace penstock::actors {

/// One line of JSON.
std::string to_json(const trace_header& header);

/// Throws penstock::error, one line, when the text is not such a header or its numbers are out of reason (lists of
/// different lengths, no stage, a replica count or credit below 1).
trace_header parse_header(std::string_view text);

} // namespace penstock::actors
