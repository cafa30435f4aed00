// Trains GNMT-16, or translates by it.
#include "apps/runner/run_app.hpp"
#include "apps/runner/translate_lines.hpp"

int main(int argc, char** argv) {
  if (penstock::apps::wants_translation(argc, argv)) return penstock::apps::translate_lines("gnmt16", argc, argv);
  return penstock::apps::run_app("gnmt16", argc, argv);
}
