// The command that makes a rank on another host, and how it is spoken to.
#pragma once

#include <string>
#include <vector>

namespace penstock::tools::launcher {

/// The text as one word of a POSIX shell.
std::string quoted(const std::string& text);

/// What to run here so that `command` runs there in the folder with the variables ("NAME=VALUE") added. Its standard
/// input takes the job's secret as the first line, then the name of a signal a line ("TERM") for the rank; where it
/// ends, the rank and all it started are killed.
std::vector<std::string> remote_command(const std::vector<std::string>& ssh, const std::string& host,
                                        const std::string& folder, const std::vector<std::string>& variables,
                                        const std::vector<std::string>& command);

/// "TERM" for SIGTERM.
std::string order_of(int signal);

} // namespace penstock::tools::launcher
