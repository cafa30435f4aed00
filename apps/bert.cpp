// Trains BERT, or embeds lines of text by it.
#include "apps/runner/embed_lines.hpp"
#include "apps/runner/run_app.hpp"

#include <algorithm>

int main(int argc, char** argv) {
  const bool embeds = std::any_of(argv + 1, argv + argc, [](std::string_view a) { return a == "--embed"; });
  return embeds ? penstock::apps::embed_lines(argc, argv) : penstock::apps::run_app("bert", argc, argv);
}
