// Trains ResNet-50.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("resnet50", argc, argv);
}
