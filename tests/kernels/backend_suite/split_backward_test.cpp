// Every kind of layer, its backward whole and in two parts: the same bits on every backend.
#include "kernels/initialise.hpp"
#include "kernels/layers/layers.hpp"
#include "tests/kernels/backend_suite/layer_harness.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace penstock::testing {

namespace {

struct layer_case {
  std::string name;
  layer_ptr op;
  std::vector<shape> inputs;
};

std::vector<layer_case> every_kind_of_layer() {
  using namespace layers;
  const shape images{3, 6, 7, 5};
  return {
      {"Conv", conv2d({.in_channels = 6, .out_channels = 10, .kernel = {3, 3}, .args = {.padding = {1, 1}}}), {images}},
      {"ConvOfGroupsWithoutBias",
       conv2d({.in_channels = 6,
               .out_channels = 9,
               .kernel = {3, 2},
               .args = {.stride = {2, 1}, .padding = {1, 0}, .groups = 3},
               .bias = false}),
       {images}},
      {"ConvDilated",
       conv2d({.in_channels = 6, .out_channels = 17, .kernel = {2, 2}, .args = {.dilation = {2, 3}}}),
       {images}},
      {"Linear", linear({.in_features = 37, .out_features = 19}), {{5, 37}}},
      {"LinearWithoutBias", linear({.in_features = 64, .out_features = 32, .bias = false}), {{1, 64}}},
      {"BatchNorm", batch_norm2d(6), {images}},
      {"Relu", relu(), {images}},
      {"MaxPool", pool2d({}), {images}},
      {"AveragePool", pool2d({.kind = pool_kind::average}), {images}},
      {"AdaptiveAveragePool", adaptive_average_pool2d({2, 3}), {images}},
      {"Flatten", flatten(), {images}},
      {"Dropout", dropout(0.4F), {images}},
      {"Add", add(), {images, images}},
      {"Concat", concat(), {images, images}},
  };
}

layer_call call_of(const layer_case& layer) {
  layer_call call{.op = layer.op};
  std::vector<tensor_spec> specs;
  unsigned seed = 1;
  for (const auto& dims : layer.inputs) {
    call.inputs.push_back(distinct_tensor(dims, seed++));
    specs.push_back({dtype::f32, dims});
  }
  for (const auto& p : layer.op->parameters(specs))
    call.weights.push_back(random_tensor(p.dims, seed++));
  for (const auto& st : layer.op->states(specs))
    call.states.push_back(
        {st.dims, std::vector<float>(st.dims.empty() ? 1 : static_cast<std::size_t>(st.dims[0]), st.initial)});
  for (const auto& spec : layer.op->infer(specs))
    call.output_gradients.push_back(random_tensor(spec.dims, seed++));
  return call;
}

void expect_same_bits(const std::vector<host_tensor>& found, const std::vector<host_tensor>& wanted,
                      const std::string& where) {
  ASSERT_EQ(found.size(), wanted.size()) << where;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].dims, wanted[i].dims) << where << " " << i;
    EXPECT_EQ(std::memcmp(found[i].values.data(), wanted[i].values.data(), found[i].values.size() * sizeof(float)), 0)
        << where << " " << i;
  }
}

class SplitBackwardOfALayer : public ::testing::TestWithParam<backend_under_test> {};

TEST_P(SplitBackwardOfALayer, HasTheBitsOfTheWholeOne) {
  const auto on = open_stream(GetParam());
  for (const auto& layer : every_kind_of_layer())
    for (const bool fused : {false, true})
      for (const bool shared : {false, true})
        for (const bool wanted : {true, false}) {
          if (fused && layer.op->try_fuse(*layers::relu()) == nullptr) continue;
          auto call = call_of(layer);
          call.fused_relu = fused;
          call.shared_handles = shared;
          call.need_input_gradient.assign(layer.inputs.size(), wanted);
          call.need_weight_gradient = !call.weights.empty();
          const auto whole = run_layer(*on, call);
          call.split_backward = true;
          const auto split = run_layer(*on, call);
          const auto where = layer.name + (fused ? ", ReLU fused" : "") + (shared ? ", handles shared" : "") +
                             (wanted ? "" : ", no input gradient wanted") + ": ";
          expect_same_bits(split.input_gradients, whole.input_gradients, where + "input gradient");
          expect_same_bits(split.weight_gradients, whole.weight_gradients, where + "weight gradient");
          expect_same_bits(split.output_gradients_after, whole.output_gradients_after, where + "output gradient");
          EXPECT_EQ(split.weight_gradients.size(), call.weights.size()) << where;
        }
}

INSTANTIATE_TEST_SUITE_P(All, SplitBackwardOfALayer, ::testing::ValuesIn(layer_backends_under_test()),
                         [](const auto& p) { return p.param.name; });

} // namespace

} // namespace penstock::testing
