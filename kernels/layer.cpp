// What a layer is that says nothing else: no parameters, no state, plain formats, negligible arithmetic, a backward
// in one piece.
#include "kernels/layer.hpp"

#include <iterator>

namespace penstock {

std::vector<parameter_spec> layer::parameters(std::span<const tensor_spec>) const {
  return {};
}

std::vector<state_spec> layer::carried(std::span<const tensor_spec>) const {
  return {};
}

std::vector<state_spec> layer::states(std::span<const tensor_spec>) const {
  return {};
}

format_ptr layer::parameter_format(backend&, std::size_t, std::span<const tensor_spec>) const {
  return nullptr;
}

layer_ptr layer::try_fuse(const layer&) const {
  return nullptr;
}

backward_input_result layer::backward_input(run_context& context, std::span<tensor> output_gradients,
                                            std::span<const tensor> weights, std::span<const tensor> saved) const {
  auto whole = backward(context, output_gradients, weights, saved);
  return {std::move(whole.input_gradients), std::move(whole.weight_gradients)};
}

std::vector<tensor> layer::backward_weight(run_context&, std::span<const tensor>, std::span<tensor> kept) const {
  return {std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end())};
}

std::int64_t layer::least_training_samples(std::span<const tensor_spec>) const {
  return 1;
}

double layer::forward_flops(std::span<const tensor_spec>) const {
  return 0;
}

} // namespace penstock
