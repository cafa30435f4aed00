// `penstock trace …`: what a user types to look into a trace file.
#pragma once

#include <iosfwd>
#include <span>
#include <string>

namespace penstock::actors {

/// Runs `summary|timeline|lifeline|check|diff|merge FILE …`, the words after `penstock trace`. Results go to `out`, one
/// line of complaint to `err`. Returns the exit code: 0 done, 1 a trace cannot be read, is incomplete or breaks a
/// promise (check) or cannot be compared (diff), 2 the words are not understood.
int trace_command(std::span<const std::string> args, std::ostream& out, std::ostream& err);

} // namespace penstock::actors
