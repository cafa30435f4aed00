// Trains S2VT.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("s2vt", argc, argv);
}
