// Trains GNMT of any depth, or translates by it.
#include "apps/runner/run_app.hpp"
#include "apps/runner/translate_lines.hpp"

int main(int argc, char** argv) {
  if (penstock::apps::wants_translation(argc, argv)) return penstock::apps::translate_lines("gnmt_large", argc, argv);
  return penstock::apps::run_app("gnmt_large", argc, argv);
}
