// Embeddings, learnt rows and gathering, one element after another.
#include "kernels/check.hpp"
#include "kernels/dropout_random.hpp"
#include "kernels/reference/reference_embedding.hpp"

#include <algorithm>

namespace penstock {

namespace {

tensor zeros(backend& memory, const shape& dims, memory_use use) {
  return memory.allocate_zeroed(dtype::f32, dims, use);
}

// What row `id` is multiplied by.
float share_of(const dropout_random& random, const row_dropout& drop, std::int64_t id) {
  if (drop.p <= 0) return 1;
  return random.keeps(static_cast<std::uint64_t>(id)) ? random.scale() : 0.0F;
}

} // namespace

tensor reference_embedding::find_outside(const tensor& indices, std::int64_t below) {
  tensor found = memory_.allocate(dtype::f64, {2}, memory_use::scratch);
  const auto* all = indices.data<std::int64_t>();
  const auto* bad = std::find_if(all, all + indices.elements(), [&](auto id) { return id < 0 || id >= below; });
  const bool none = bad == all + indices.elements();
  found.data<double>()[0] = none ? -1 : static_cast<double>(bad - all);
  found.data<double>()[1] = none ? 0 : static_cast<double>(*bad);
  return found;
}

tensor reference_embedding::embed(const tensor& table, const tensor& ids, const row_dropout& drop) {
  const std::int64_t rows = table.dim(0), width = table.dim(1);
  shape dims = ids.dims();
  dims.push_back(width);
  tensor y = zeros(memory_, dims, memory_use::activations);
  const dropout_random random(drop.key, drop.p);
  for (std::int64_t i = 0; i < ids.elements(); ++i) {
    const std::int64_t id = ids.data<std::int64_t>()[i];
    if (id < 0 || id >= rows) continue;
    const float share = share_of(random, drop, id);
    for (std::int64_t c = 0; c < width; ++c)
      y.data<float>()[i * width + c] = table.data<float>()[id * width + c] * share;
  }
  return y;
}

tensor reference_embedding::embed_backward(const shape& table, const tensor& ids, const row_dropout& drop,
                                           const tensor& dy, std::int64_t padding) {
  const std::int64_t rows = table.at(0), width = table.at(1);
  tensor gradient = zeros(memory_, table, memory_use::gradients);
  const dropout_random random(drop.key, drop.p);
  for (std::int64_t i = 0; i < ids.elements(); ++i) {
    const std::int64_t id = ids.data<std::int64_t>()[i];
    if (id < 0 || id >= rows || id == padding) continue;
    const float share = share_of(random, drop, id);
    for (std::int64_t c = 0; c < width; ++c)
      gradient.data<float>()[id * width + c] += dy.data<float>()[i * width + c] * share;
  }
  return gradient;
}

tensor reference_embedding::add_rows(tensor x, const tensor& table) {
  const std::int64_t sequence = x.dim(1) * x.dim(2);
  tensor y = x.is_unique() ? x : memory_.allocate_activation(x.dims());
  for (std::int64_t i = 0; i < x.elements(); ++i)
    y.data<float>()[i] = x.data<float>()[i] + table.data<float>()[i % sequence];
  return y;
}

tensor reference_embedding::prepend_row(const tensor& x, const tensor& row) {
  const std::int64_t batch = x.dim(0), length = x.dim(1) * x.dim(2), width = x.dim(2);
  tensor y = memory_.allocate_activation({batch, x.dim(1) + 1, width});
  float* to = y.data<float>();
  for (std::int64_t b = 0; b < batch; ++b) {
    to = std::copy_n(row.data<float>(), width, to);
    to = std::copy_n(x.data<float>() + b * length, length, to);
  }
  return y;
}

tensor reference_embedding::sum_rows(const tensor& dy, const shape& table) {
  tensor gradient = zeros(memory_, table, memory_use::gradients);
  const std::int64_t sequence = dy.dim(1) * dy.dim(2), count = std::min(sequence, gradient.elements());
  for (std::int64_t b = 0; b < dy.dim(0); ++b)
    for (std::int64_t i = 0; i < count; ++i)
      gradient.data<float>()[i] += dy.data<float>()[b * sequence + i];
  return gradient;
}

tensor reference_embedding::gather_rows(const tensor& x, const tensor& positions) {
  const std::int64_t length = x.dim(1), width = x.dim(2), taken = positions.dim(1);
  tensor y = zeros(memory_, {x.dim(0), taken, width}, memory_use::activations);
  for (std::int64_t i = 0; i < positions.elements(); ++i) {
    const std::int64_t t = positions.data<std::int64_t>()[i];
    if (t >= 0 && t < length)
      std::copy_n(x.data<float>() + (i / taken * length + t) * width, width, y.data<float>() + i * width);
  }
  return y;
}

tensor reference_embedding::gather_rows_backward(const shape& x, const tensor& positions, const tensor& dy) {
  const std::int64_t length = x.at(1), width = x.at(2), taken = positions.dim(1);
  tensor dx = zeros(memory_, x, memory_use::gradients);
  for (std::int64_t i = 0; i < positions.elements(); ++i) {
    const std::int64_t t = positions.data<std::int64_t>()[i];
    if (t < 0 || t >= length) continue;
    for (std::int64_t c = 0; c < width; ++c)
      dx.data<float>()[(i / taken * length + t) * width + c] += dy.data<float>()[i * width + c];
  }
  return dx;
}

} // namespace penstock
