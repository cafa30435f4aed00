// Whole text files, read with plain errors.
#pragma once

#include <string>

namespace penstock::apps {

/// Throws penstock::error that names the file and the system's reason when it cannot be read, std::invalid_argument for
/// one that is too large to be meant.
std::string read_text_file(const std::string& file);

} // namespace penstock::apps
