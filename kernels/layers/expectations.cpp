// The checks that layers share, and the tensor that remembers a shape alone.
#include "kernels/layers/expectations.hpp"

#include "kernels/check.hpp"
#include "kernels/device.hpp"

#include <cmath>
#include <sstream>

namespace penstock::layers {

namespace {

// Zero bytes whatever the shape.
class shape_only_format final : public tensor_format {
public:
  std::size_t bytes() const override { return 0; }
  bool equals(const tensor_format& other) const override {
    return dynamic_cast<const shape_only_format*>(&other) != nullptr;
  }
  std::string name() const override { return "shape only"; }
};

} // namespace

void expect_inputs(std::span<const tensor_spec> inputs, std::size_t count) {
  if (inputs.size() != count)
    throw usage_error(std::to_string(inputs.size()) + (inputs.size() == 1 ? " input, " : " inputs, ") +
                      std::to_string(count) + (count == 1 ? " is wanted" : " are wanted"));
  for (const tensor_spec& input : inputs)
    if (input.type != dtype::f32) throw usage_error("input is " + std::string(name_of(input.type)) + ", F32 is wanted");
}

void expect_images(const tensor_spec& input) {
  if (input.dims.size() != 4)
    throw usage_error("input has shape " + to_string(input.dims) + ", [N, C, H, W] is wanted");
}

void expect_at_least(std::int64_t least, std::int64_t value, const std::string& what) {
  if (value < least)
    throw usage_error(what + " is " + std::to_string(value) + ", at least " + std::to_string(least) + " is wanted");
}

void expect_at_least(std::int64_t least, std::array<std::int64_t, 2> values, const std::string& what) {
  for (const std::int64_t value : values)
    expect_at_least(least, value, what);
}

std::string number_text(float value) {
  return (std::ostringstream() << value).str();
}

std::string extent_text(std::int64_t height, std::int64_t width) {
  return std::to_string(height) + "x" + std::to_string(width);
}

initializer default_uniform(std::int64_t fan_in) {
  return {initializer_kind::uniform, static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)))};
}

std::vector<tensor> parameter_gradients(layer_gradients&& gradients, bool has_bias) {
  std::vector<tensor> result;
  result.push_back(std::move(gradients.weight));
  if (has_bias) result.push_back(std::move(gradients.bias));
  return result;
}

tensor remember_shape(backend& ops, const shape& dims) {
  static const auto format = std::make_shared<const shape_only_format>();
  return ops.allocate(dtype::f32, dims, memory_use::activations, format);
}

} // namespace penstock::layers
