// `bert --embed`: lines of text in, one vector a line out.
#pragma once

namespace penstock::apps {

/// Reads standard input and prints, in its order, one JSON array a line: the mean of the last layer over the line's
/// tokens, of length 1. An evaluation of bert's embed head through as many stages as are asked for, some thousands of
/// lines at a time, sorted by length within. Lines longer than the model's positions are cut, and counted on stderr at
/// the end. Lets no exception out. Returns the exit code.
int embed_lines(int argc, char** argv);

} // namespace penstock::apps
