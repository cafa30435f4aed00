// Trains ResNet-18.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("resnet18", argc, argv);
}
