// `gnmt8 --translate FILE`: lines of text in, their translations out.
#pragma once

#include <string_view>

namespace penstock::apps {

/// Is this a command line that translates: does it have --translate?
bool wants_translation(int argc, char** argv);

/// Reads the lines of a file, or of standard input, and prints for each, in their order, the best translation of a
/// search by that model of the GNMT family, through as many stages as are asked for. Some thousands of lines at a time.
/// An empty line stays empty; what has more than 1024 tokens is cut, and counted on stderr at the end. Lets no
/// exception out. Returns the exit code.
int translate_lines(std::string_view model, int argc, char** argv);

} // namespace penstock::apps
