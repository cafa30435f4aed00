// What PyTorch computed in float64 (tests/kernels/fixtures/make_layer_fixtures.py), read back.
#pragma once

#include "kernels/optimizer.hpp"
#include "tests/kernels/backend_suite/layer_harness.hpp"

namespace penstock::testing {

struct layer_fixture {
  std::string name;
  layer_call call;
  layer_outcome expected; ///< outputs, gradients, states
};

inline std::ostream& operator<<(std::ostream& out, const layer_fixture& fixture) {
  return out << fixture.name;
}

struct loss_fixture {
  std::string name;
  host_tensor logits;
  std::vector<std::int64_t> labels;
  float label_smoothing = 0;
  float scale = 1;
  double loss_sum = 0;
  std::int64_t correct_top1 = 0;
  std::int64_t correct_top5 = 0;
  host_tensor probabilities;
  host_tensor gradient;
};

struct optimizer_fixture {
  std::string name;
  optimizer_options options;
  float learning_rate = 0;
  host_tensor start;
  std::vector<host_tensor> gradients; ///< one a step; the step scales them by 1/2
  std::vector<host_tensor> weights;   ///< after each step
  std::vector<host_tensor> in_use;    ///< what is evaluated then; none: the weights
};

struct fixture_file {
  std::vector<layer_fixture> layers;
  std::vector<loss_fixture> losses;
  std::vector<optimizer_fixture> optimizers;
};

/// The file beside its script; read once.
const fixture_file& layer_fixtures();

} // namespace penstock::testing
