// Notes as they travel on the control plane.
#pragma once

#include "actors/run/note.hpp"

#include <string_view>

namespace penstock::actors {

std::string encode(const note& n);
/// Throws penstock::error for a text that encode() did not write.
note decode_note(std::string_view text);

} // namespace penstock::actors
