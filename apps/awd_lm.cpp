// Trains the AWD LSTM language model.
#include "apps/runner/run_app.hpp"

int main(int argc, char** argv) {
  return penstock::apps::run_app("awd_lm", argc, argv);
}
