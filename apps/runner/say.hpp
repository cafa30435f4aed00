// What a program of ours prints, made fit for a terminal.
#pragma once

#include <string_view>

namespace penstock::apps {

/// Prints lines to stdout at once. Names in them may come from anybody's files: controls and what is no UTF-8 are
/// written out, line ends stay. Throws error when they cannot be written: a reader that is gone or a full disk behind
/// stdout must not pass for success.
void say(std::string_view lines);

/// One line on stderr, "PROGRAM: text", with what is no printable text written out and the middle of what is long left
/// out.
void complain(std::string_view program, std::string_view text);

} // namespace penstock::apps
