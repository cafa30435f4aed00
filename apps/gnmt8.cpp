// Trains GNMT-8.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("gnmt8", argc, argv);
}
