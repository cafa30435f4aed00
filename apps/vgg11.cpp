// Trains VGG-11.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("vgg11", argc, argv);
}
