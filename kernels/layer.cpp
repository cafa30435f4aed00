// What a layer is that says nothing else: no parameters, no state, plain formats, negligible arithmetic.
#include "kernels/layer.hpp"

namespace penstock {

std::vector<parameter_spec> layer::parameters(std::span<const tensor_spec>) const {
  return {};
}

std::vector<state_spec> layer::states(std::span<const tensor_spec>) const {
  return {};
}

format_ptr layer::parameter_format(backend&, std::size_t, std::span<const tensor_spec>) const {
  return nullptr;
}

std::int64_t layer::least_training_samples(std::span<const tensor_spec>) const {
  return 1;
}

double layer::forward_flops(std::span<const tensor_spec>) const {
  return 0;
}

} // namespace penstock
