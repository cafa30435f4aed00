// Trains BERT.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("bert", argc, argv);
}
