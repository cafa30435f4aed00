// Trains ViT-B/16.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("vit_b_16", argc, argv);
}
