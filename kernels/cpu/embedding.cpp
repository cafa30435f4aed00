// Embeddings, learnt rows and gathering. Sums that go into one place are dealt to the threads by columns, or by
// sequences, so their order is the same for any number of threads.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_embedding.hpp"
#include "kernels/cpu/vector_loop.hpp"
#include "kernels/dropout_random.hpp"

#include <cstring>

namespace penstock {

namespace {

constexpr std::int64_t serial_below = 1 << 14; // elements that are not worth a team of threads

// Rows of so many elements that are too few for a team.
std::int64_t rows_below(std::int64_t width) {
  return std::max<std::int64_t>(2, serial_below / std::max<std::int64_t>(width, 1));
}

// What the row that each index names is multiplied by; 0 where the index is out of range.
std::vector<float> shares_of(const tensor& ids, std::int64_t rows, const row_dropout& drop, std::int64_t padding) {
  const dropout_random random(drop.key, drop.p);
  std::vector<float> shares(static_cast<std::size_t>(ids.elements()));
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::int64_t id = ids.data<std::int64_t>()[i];
    const bool known = id >= 0 && id < rows && id != padding;
    const bool kept = drop.p <= 0 || random.keeps(static_cast<std::uint64_t>(id));
    shares[i] = !known || !kept ? 0.0F : drop.p > 0 ? random.scale() : 1.0F;
  }
  return shares;
}

} // namespace

tensor onednn_embedding::find_outside(const tensor& indices, std::int64_t below) {
  tensor found = context_.allocate(dtype::f64, {2}, memory_use::scratch);
  const auto* all = indices.data<std::int64_t>();
  const auto* bad = std::find_if(all, all + indices.elements(), [&](auto id) { return id < 0 || id >= below; });
  const bool none = bad == all + indices.elements();
  found.data<double>()[0] = none ? -1 : static_cast<double>(bad - all);
  found.data<double>()[1] = none ? 0 : static_cast<double>(*bad);
  return found;
}

tensor onednn_embedding::embed(const tensor& table, const tensor& ids, const row_dropout& drop) {
  const std::int64_t width = table.dim(1);
  shape dims = ids.dims();
  dims.push_back(width);
  tensor y = context_.allocate(dtype::f32, dims, memory_use::activations);
  const auto shares = shares_of(ids, table.dim(0), drop, -1);
  const float *rows = table.data<float>(), *share = shares.data();
  const auto* id = ids.data<std::int64_t>();
  float* to = y.data<float>();
  vector_loop(ids.elements(), 1, rows_below(width), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t i = begin; i < end; ++i) {
      float* out = to + i * width;
      const float factor = share[i];
      if (factor == 0.0F) {
        std::fill_n(out, width, 0.0F);
        continue;
      }
      const float* in = rows + id[i] * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c)
        out[c] = in[c] * factor;
    }
  });
  return y;
}

tensor onednn_embedding::embed_backward(const shape& table, const tensor& ids, const row_dropout& drop,
                                        const tensor& dy, std::int64_t padding) {
  const std::int64_t width = table.at(1), count = ids.elements();
  tensor gradient = context_.allocate_zeroed(dtype::f32, table, memory_use::gradients);
  const auto shares = shares_of(ids, table.at(0), drop, padding);
  const float *from = dy.data<float>(), *share = shares.data();
  const auto* id = ids.data<std::int64_t>();
  float* to = gradient.data<float>();
  const std::int64_t serial_columns = std::max<std::int64_t>(17, serial_below / std::max<std::int64_t>(count, 1));
  vector_loop(width, 16, serial_columns, [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t i = 0; i < count; ++i) {
      const float factor = share[i];
      if (factor == 0.0F) continue;
      const float* in = from + i * width;
      float* sum = to + id[i] * width;
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c)
        sum[c] += in[c] * factor;
    }
  });
  return gradient;
}

tensor onednn_embedding::add_rows(tensor x, const tensor& table) {
  const std::int64_t length = x.dim(1), width = x.dim(2);
  tensor y = x.is_unique() ? x : context_.allocate(dtype::f32, x.dims(), memory_use::activations);
  const float *in = x.data<float>(), *rows = table.data<float>();
  float* out = y.data<float>();
  vector_loop(x.dim(0) * length, 1, rows_below(width), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = rows + i % length * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c)
        out[i * width + c] = in[i * width + c] + row[c];
    }
  });
  return y;
}

tensor onednn_embedding::prepend_row(const tensor& x, const tensor& row) {
  const std::int64_t width = x.dim(2), sequence = x.dim(1) * width;
  tensor y = context_.allocate(dtype::f32, {x.dim(0), x.dim(1) + 1, width}, memory_use::activations);
  const float *in = x.data<float>(), *first = row.data<float>();
  float* out = y.data<float>();
  vector_loop(x.dim(0), 1, rows_below(sequence), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t b = begin; b < end; ++b) {
      float* to = std::copy_n(first, width, out + b * (sequence + width));
      std::copy_n(in + b * sequence, sequence, to);
    }
  });
  return y;
}

tensor onednn_embedding::sum_rows(const tensor& dy, const shape& table) {
  tensor gradient = context_.allocate_zeroed(dtype::f32, table, memory_use::gradients);
  const std::int64_t batch = dy.dim(0), sequence = dy.dim(1) * dy.dim(2);
  const float* from = dy.data<float>();
  float* to = gradient.data<float>();
  vector_loop(std::min(sequence, gradient.elements()), 256, 1 << 12,
              [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
                for (std::int64_t first = begin; first < end; first += 256) {
                  const std::int64_t last = std::min(end, first + 256); // stays in the first cache
                  for (std::int64_t b = 0; b < batch; ++b)
#pragma omp simd
                    for (std::int64_t i = first; i < last; ++i)
                      to[i] += from[b * sequence + i];
                }
              });
  return gradient;
}

tensor onednn_embedding::gather_rows(const tensor& x, const tensor& positions) {
  const std::int64_t length = x.dim(1), width = x.dim(2), taken = positions.dim(1);
  tensor y = context_.allocate(dtype::f32, {x.dim(0), taken, width}, memory_use::activations);
  const float* from = x.data<float>();
  const auto* at = positions.data<std::int64_t>();
  float* to = y.data<float>();
  vector_loop(positions.elements(), 1, rows_below(width),
              [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
                for (std::int64_t i = begin; i < end; ++i) {
                  if (at[i] >= 0 && at[i] < length)
                    std::copy_n(from + (i / taken * length + at[i]) * width, width, to + i * width);
                  else
                    std::fill_n(to + i * width, width, 0.0F);
                }
              });
  return y;
}

tensor onednn_embedding::gather_rows_backward(const shape& x, const tensor& positions, const tensor& dy) {
  const std::int64_t length = x.at(1), width = x.at(2), taken = positions.dim(1);
  tensor dx = context_.allocate_zeroed(dtype::f32, x, memory_use::gradients);
  const float* from = dy.data<float>();
  const auto* at = positions.data<std::int64_t>();
  float* to = dx.data<float>();
  vector_loop(x.at(0), 1, rows_below(taken * width), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t i = begin * taken; i < end * taken; ++i) {
      if (at[i] < 0 || at[i] >= length) continue;
      float* sum = to + (i / taken * length + at[i]) * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c)
        sum[c] += from[i * width + c];
    }
  });
  return dx;
}

} // namespace penstock
