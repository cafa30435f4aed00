// Trains S2VT, or captions clips by it.
#include "apps/runner/caption_clips.hpp"
#include "apps/runner/run_app.hpp"

#include <algorithm>

int main(int argc, char** argv) {
  const bool captions = std::any_of(argv + 1, argv + argc, [](std::string_view word) {
    return word == "--caption" || word.starts_with("--caption=");
  });
  return captions ? penstock::apps::caption_clips(argc, argv) : penstock::apps::run_app("s2vt", argc, argv);
}
