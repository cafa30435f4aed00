// The checks that layers share, and the tensor that remembers a shape alone.
#include "kernels/layers/expectations.hpp"

#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/ops/embedding_ops.hpp"
#include "kernels/outcome.hpp"

#include <algorithm>
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

std::string count_text(std::size_t inputs) {
  return std::to_string(inputs) + (inputs == 1 ? " input" : " inputs");
}

std::string name_of_input(std::size_t index, std::size_t count) {
  return count == 1 ? "input" : "input " + std::to_string(index);
}

bool has_axes(const shape& dims, std::string_view axes) {
  if (axes.empty()) return true;
  const auto names = static_cast<std::size_t>(std::count(axes.begin(), axes.end(), ',')) + 1;
  return axes.ends_with("...]") ? dims.size() + 1 >= names : dims.size() == names;
}

void expect_one(const tensor_spec& input, const std::string& name, const input_rule& rule) {
  if (input.type != rule.type)
    throw usage_error(name + " is " + std::string(name_of(input.type)) + ", " + std::string(name_of(rule.type)) +
                      " is wanted");
  if (!has_axes(input.dims, rule.axes))
    throw usage_error(name + " has shape " + to_string(input.dims) + ", " + std::string(rule.axes) + " is wanted");
}

} // namespace

void expect_inputs(std::span<const tensor_spec> inputs, std::initializer_list<input_rule> rules) {
  if (inputs.size() != rules.size())
    throw usage_error(count_text(inputs.size()) + ", " + std::to_string(rules.size()) +
                      (rules.size() == 1 ? " is wanted" : " are wanted"));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_one(inputs[i], name_of_input(i, inputs.size()), rules.begin()[i]);
}

void expect_all_inputs(std::span<const tensor_spec> inputs, std::size_t least, const input_rule& rule) {
  if (inputs.size() < least)
    throw usage_error(count_text(inputs.size()) + ", " + std::to_string(least) + " or more are wanted");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_one(inputs[i], name_of_input(i, inputs.size()), rule);
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

void refuse_outside(run_context& context, const tensor& indices, std::int64_t below, const std::string& what,
                    const std::string& place) {
  if (context.tells == nullptr) return;
  const std::int64_t row = indices.elements() / std::max<std::int64_t>(indices.dim(0), 1);
  context.tells->expect(context.ops.get<embedding_ops>().find_outside(indices, below),
                        [=, is_flat = indices.rank() == 1, name = std::string(context.name)](const tensor& found) {
                          const auto at = static_cast<std::int64_t>(found.data<double>()[0]);
                          if (at < 0) return;
                          const auto index = static_cast<std::int64_t>(found.data<double>()[1]);
                          throw error("[layer] " + name + ": " + what + " " + std::to_string(index) + " at row " +
                                      std::to_string(at / row) +
                                      (is_flat ? "" : ", " + place + " " + std::to_string(at % row)) +
                                      "; wanted 0 to " + std::to_string(below - 1));
                        });
}

shape with_last(shape dims, std::int64_t extent) {
  dims.back() = extent;
  return dims;
}

tensor as_rows(backend& ops, tensor x) {
  if (x.rank() == 2) return x;
  const std::int64_t features = x.dims().back();
  return ops.to_plain(x, memory_use::activations).reshaped({x.elements() / features, features});
}

tensor from_rows(backend& ops, tensor rows, const shape& dims, memory_use use) {
  if (!rows || rows.dims() == dims) return rows;
  return ops.reorder(rows.reshaped(dims), ops.activation_format(dims), use);
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
