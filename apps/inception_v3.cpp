// Trains Inception-v3.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("inception_v3", argc, argv);
}
