// Finds output paths that cannot be written before hours are spent on what should go there.
#pragma once

#include "apps/runner/options.hpp"

namespace penstock::apps {

/// Throws penstock::error naming the option, the path and the system's reason when a file could not be made there: no
/// such folder, a folder in its place, not writable, disk full. Leaves nothing behind.
void check_output_file(const std::string& option, const std::filesystem::path& file);

/// The same for a folder that is made when it does not exist.
void check_output_folder(const std::string& option, const std::filesystem::path& folder);

/// All outputs of a run, and that no two of them are one file.
void check_outputs(const app_options& options);

} // namespace penstock::apps
