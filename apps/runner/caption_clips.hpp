// `s2vt --caption`: captions of clips.
#pragma once

namespace penstock::apps {

/// Prints a caption a line, greedily: the most likely word at each step. Returns the exit code.
int caption_clips(int argc, char** argv);

} // namespace penstock::apps
