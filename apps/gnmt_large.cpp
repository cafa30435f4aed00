// Trains GNMT of any depth.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("gnmt_large", argc, argv);
}
