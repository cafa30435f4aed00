// Work that treats every element alike: sums, ReLU, dropout.
#include "kernels/check.hpp"
#include "kernels/dropout_random.hpp"
#include "kernels/finite.hpp"
#include "kernels/reference/plain_index.hpp"
#include "kernels/reference/reference_elementwise.hpp"
#include "kernels/reference/relu.hpp"

#include <algorithm>

namespace penstock {

void reference_elementwise::accumulate(tensor& into, const tensor& x) {
  check(into.dims() == x.dims(), "accumulate: shapes differ");
  for (std::int64_t i = 0; i < x.elements(); ++i)
    into.data<float>()[i] += x.data<float>()[i];
}

tensor reference_elementwise::scaled(const tensor& x, float factor) {
  tensor y = memory_.allocate(dtype::f32, x.dims(), memory_use::scratch);
  for (std::int64_t i = 0; i < x.elements(); ++i)
    y.data<float>()[i] = x.data<float>()[i] * factor;
  return y;
}

tensor reference_elementwise::find_nonfinite(const tensor& x) {
  tensor found = memory_.allocate(dtype::f64, {2}, memory_use::scratch);
  const auto first = penstock::find_nonfinite(x);
  found.data<double>()[0] = static_cast<double>(first.place);
  found.data<double>()[1] = first.value;
  return found;
}

tensor reference_elementwise::add(tensor a, const tensor& b, bool relu) {
  check(a.dims() == b.dims(), "add: shapes differ");
  tensor y = a.is_unique() ? a : memory_.allocate_activation(a.dims());
  for (std::int64_t i = 0; i < b.elements(); ++i) {
    const float sum = a.data<float>()[i] + b.data<float>()[i];
    y.data<float>()[i] = relu ? relu_of(sum) : sum;
  }
  return y;
}

tensor reference_elementwise::relu_forward(tensor x) {
  tensor y = x.is_unique() ? x : memory_.allocate_activation(x.dims());
  std::transform(x.data<float>(), x.data<float>() + x.elements(), y.data<float>(), relu_of);
  return y;
}

tensor relu_backward(backend& memory, const tensor& y, tensor dy) {
  check(y.dims() == dy.dims(), "relu_backward: shapes differ");
  tensor dx = dy.is_unique() ? dy : memory.allocate_activation(dy.dims());
  for (std::int64_t i = 0; i < dy.elements(); ++i)
    dx.data<float>()[i] = y.data<float>()[i] > 0 ? dy.data<float>()[i] : 0.0F;
  return dx;
}

tensor reference_elementwise::relu_backward(const tensor& y, tensor dy) {
  return penstock::relu_backward(memory_, y, std::move(dy));
}

tensor reference_elementwise::dropout(const random_key& key, float p, tensor x) {
  tensor y = x.is_unique() ? x : memory_.allocate_activation(x.dims());
  const dropout_random random(key, p);
  for (std::int64_t i = 0; i < x.elements(); ++i)
    y.data<float>()[i] = random.keeps(static_cast<std::uint64_t>(i)) ? x.data<float>()[i] * random.scale() : 0.0F;
  return y;
}

} // namespace penstock
