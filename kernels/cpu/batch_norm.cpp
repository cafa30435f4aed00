// Batch normalisation over N, H, W with ReLU optionally in the same pass. Training is our own: oneDNN sums in f32 from
// end to end, and what that loses shows in gradients and running statistics. Evaluation is oneDNN's.
#include "kernels/check.hpp"
#include "kernels/cpu/batch_norm_loops.hpp"
#include "kernels/cpu/onednn_backend.hpp"
#include "kernels/cpu/vector_loop.hpp"

#include <cstring>

namespace penstock {

struct onednn_backend::norm_entry {
  bound_primitive run;
};

namespace {

using namespace norm_loops;

// (images, blocks, rows, Block) and how each channel block is cut into parts, whose sums are added in order: the same
// parts for any number of threads.
struct norm_extent {
  std::int64_t images, channels, rows, blocks;
  std::int64_t part_images, part_rows; // one of them covers its whole axis or is 1
  std::int64_t parts;                  // of each block

  norm_extent(const shape& x, std::int64_t block)
      : images(x[0]), channels(x[1]), rows(x[2] * x[3]), blocks((x[1] + block - 1) / block) {
    constexpr std::int64_t part_bytes = 1 << 16;
    const std::int64_t wanted_rows = part_bytes / (block * static_cast<std::int64_t>(sizeof(float)));
    part_rows = std::min(rows, wanted_rows);
    part_images = std::clamp<std::int64_t>(wanted_rows / rows, 1, images);
    parts = (images + part_images - 1) / part_images * row_parts();
  }
  std::int64_t row_parts() const { return (rows + part_rows - 1) / part_rows; }
  double count() const { return static_cast<double>(images * rows); }
  bool is_small() const { return images * rows * channels < 1 << 15; }

  // visit(row, rows): stretches of rows, counted over the whole tensor.
  template <class Visit>
  [[gnu::always_inline]] void for_part(std::int64_t block, std::int64_t part, const Visit& visit) const {
    const std::int64_t first_row = part % row_parts() * part_rows, last_row = std::min(first_row + part_rows, rows);
    const std::int64_t first = part / row_parts() * part_images, last = std::min(first + part_images, images);
    for (std::int64_t n = first; n < last; ++n)
      visit((n * blocks + block) * rows + first_row, last_row - first_row);
  }
};

// For each channel block: gather(block, part) of all parts, finish(block, sums), then emit(block, part) of all parts,
// backwards: what was read last may still be in the cache. A thread has whole blocks to itself where that is fair.
template <int Block, class Gather, class Finish, class Emit>
void for_blocks(const norm_extent& e, std::vector<double>& storage, const Gather& gather, const Finish& finish,
                const Emit& emit) {
  const int threads = e.is_small() ? 1 : omp_get_max_threads();
  if (threads == 1 || e.blocks % threads == 0 || e.blocks >= 8 * threads)
    return vector_loop(e.blocks, 1, threads == 1 ? e.blocks + 1 : 0,
                       [&](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
                         for (std::int64_t b = begin; b < end; ++b) {
                           channel_sums<Block> total;
                           for (std::int64_t p = 0; p < e.parts; ++p)
                             total.add(gather(b, p));
                           finish(b, total);
                           for (std::int64_t p = e.parts; p-- > 0;)
                             emit(b, p);
                         }
                       });
  storage.resize(static_cast<std::size_t>(e.blocks * e.parts * 2 * Block));
  double* partial = storage.data();
  vector_loop(e.blocks * e.parts, 1, 0, [&, partial](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t i = begin; i < end; ++i) {
      const channel_sums<Block> sums = gather(i / e.parts, i % e.parts);
      std::copy_n(sums.first.data(), Block, partial + i * 2 * Block);
      std::copy_n(sums.second.data(), Block, partial + (i * 2 + 1) * Block);
    }
  });
  for (std::int64_t b = 0; b < e.blocks; ++b) {
    channel_sums<Block> total, part;
    for (std::int64_t p = 0; p < e.parts; ++p) {
      std::copy_n(partial + (b * e.parts + p) * 2 * Block, Block, part.first.data());
      std::copy_n(partial + ((b * e.parts + p) * 2 + 1) * Block, Block, part.second.data());
      total.add(part);
    }
    finish(b, total);
  }
  vector_loop(e.blocks * e.parts, 1, 0, [&](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t i = end; i-- > begin;)
      emit(i / e.parts, i % e.parts);
  });
}

[[gnu::always_inline]] inline double inverse_deviation(const batch_norm_args& args, float variance) {
  return 1.0 / __builtin_sqrt(static_cast<double>(variance) + static_cast<double>(args.epsilon));
}

// A block's part of a vector over channels, zeros beyond the last channel; and back.
template <int Block>
std::array<float, Block> of_channels(const tensor& values, const norm_extent& e, std::int64_t block) {
  std::array<float, Block> some{};
  std::copy_n(values.data<float>() + block * Block, std::min<std::int64_t>(Block, e.channels - block * Block),
              some.data());
  return some;
}
template <int Block>
void to_channels(const std::array<float, Block>& some, const norm_extent& e, std::int64_t block, const tensor& values) {
  std::copy_n(some.data(), std::min<std::int64_t>(Block, e.channels - block * Block),
              values.data<float>() + block * Block);
}

template <int Block, bool Relu>
void train_forward(const batch_norm_args& args, const norm_extent& e, std::vector<double>& storage, const tensor& x,
                   const tensor& scale, const tensor& shift, batch_norm_result& result) {
  const float* in = x.data<float>();
  float* out = result.y.data<float>();
  std::vector<forward_constants<Block>> constants(static_cast<std::size_t>(e.blocks));
  forward_constants<Block>* of_block = constants.data();
  const auto origin_of = [ =, &e ](std::int64_t b) __attribute__((always_inline)) {
    std::array<double, Block> origin; // the first value of each channel, so that one that never varies has no variance
    for (int c = 0; c < Block; ++c)
      origin[static_cast<std::size_t>(c)] = in[b * e.rows * Block + c];
    return origin;
  };
  const auto gather = [ =, &e ](std::int64_t b, std::int64_t p) __attribute__((always_inline)) {
    const auto origin = origin_of(b);
    channel_sums<Block> sums;
    std::int64_t rows_before = 0;
    e.for_part(
        b, p, [&](std::int64_t row, std::int64_t rows) __attribute__((always_inline)) {
          add_values<Block>(in + row * Block, rows, rows_before, origin.data(), sums);
          rows_before += rows;
        });
    return sums;
  };
  const auto finish =
      [&, count = e.count() ](std::int64_t b, const channel_sums<Block>& sums) __attribute__((always_inline)) {
    const auto origin = origin_of(b);
    const auto scales = of_channels<Block>(scale, e, b), shifts = of_channels<Block>(shift, e, b);
    std::array<float, Block> means, variances;
    auto& k = of_block[b];
#pragma omp simd
    for (std::size_t c = 0; c < Block; ++c) {
      const double offset = sums.first[c] / count, squares = sums.second[c] - sums.first[c] * offset;
      means[c] = static_cast<float>(origin[c] + offset);
      variances[c] = static_cast<float>((squares < 0 ? 0 : squares) / count); // NaN stays
      k.mean[c] = means[c];
      k.factor[c] = static_cast<float>(scales[c] * inverse_deviation(args, variances[c]));
      k.shift[c] = shifts[c];
    }
    to_channels<Block>(means, e, b, result.mean);
    to_channels<Block>(variances, e, b, result.variance);
    if constexpr (Relu) { // what decides which values ReLU lets through: less to keep and to read than a mask
      float* gates = result.workspace.template data<float>() + b * 2 * Block;
      std::memcpy(gates, of_block[b].factor.data(), sizeof(float) * Block);
      std::memcpy(gates + Block, of_block[b].shift.data(), sizeof(float) * Block);
    }
  };
  const auto emit = [ =, &e ](std::int64_t b, std::int64_t p) __attribute__((always_inline)) {
    e.for_part(
        b, p, [&](std::int64_t row, std::int64_t rows) __attribute__((always_inline)) {
          normalise<Block, Relu>(in + row * Block, rows, of_block[b], out + row * Block);
        });
  };
  for_blocks<Block>(e, storage, gather, finish, emit);
}

template <int Block, bool Relu>
void train_backward(const batch_norm_args& args, const norm_extent& e, std::vector<double>& storage, const tensor& x,
                    const tensor& scale, const batch_norm_result& saved, const tensor& dy, layer_gradients& gradients) {
  const float* in = x.data<float>();
  const float* gradient = dy.data<float>();
  float* dx = gradients.input ? gradients.input.data<float>() : nullptr;
  std::vector<backward_constants<Block>> constants(static_cast<std::size_t>(e.blocks));
  backward_constants<Block>* of_block = constants.data();
  for (std::int64_t b = 0; b < e.blocks; ++b) {
    of_block[b].mean = of_channels<Block>(saved.mean, e, b);
    if constexpr (Relu) {
      const float* gates = saved.workspace.data<float>() + b * 2 * Block;
      std::memcpy(of_block[b].gate_factor.data(), gates, sizeof(float) * Block);
      std::memcpy(of_block[b].gate_shift.data(), gates + Block, sizeof(float) * Block);
    }
  }
  const auto gather = [ =, &e ](std::int64_t b, std::int64_t p) __attribute__((always_inline)) {
    channel_sums<Block> sums;
    e.for_part(
        b, p, [&](std::int64_t row, std::int64_t rows) __attribute__((always_inline)) {
          add_gradients<Block, Relu>(in + row * Block, gradient + row * Block, rows, of_block[b], sums);
        });
    return sums;
  };
  const auto finish =
      [&, count = e.count() ](std::int64_t b, const channel_sums<Block>& sums) __attribute__((always_inline)) {
    const auto scales = of_channels<Block>(scale, e, b), variances = of_channels<Block>(saved.variance, e, b);
    std::array<float, Block> shift_gradients, scale_gradients;
    auto& k = of_block[b];
#pragma omp simd
    for (std::size_t c = 0; c < Block; ++c) {
      const double inverse = inverse_deviation(args, variances[c]), factor = scales[c] * inverse;
      shift_gradients[c] = static_cast<float>(sums.first[c]);
      scale_gradients[c] = static_cast<float>(sums.second[c] * inverse);
      k.gradient_mean[c] = static_cast<float>(sums.first[c] / count);
      k.factor[c] = static_cast<float>(factor);
      k.slope[c] = static_cast<float>(factor * inverse * inverse * sums.second[c] / count);
    }
    to_channels<Block>(shift_gradients, e, b, gradients.bias);
    to_channels<Block>(scale_gradients, e, b, gradients.weight);
  };
  const auto emit = [ =, &e ](std::int64_t b, std::int64_t p) __attribute__((always_inline)) {
    if (dx == nullptr) return;
    e.for_part(
        b, p, [&](std::int64_t row, std::int64_t rows) __attribute__((always_inline)) {
          differentiate<Block, Relu>(in + row * Block, gradient + row * Block, rows, of_block[b], dx + row * Block);
        });
  };
  for_blocks<Block>(e, storage, gather, finish, emit);
}

// Calls run<Block, Relu>() for the values at run time.
template <class Run>
void with_constants(std::int64_t block, bool relu, const Run& run) {
  const auto with_relu = [&]<int Block>() {
    if (relu)
      run.template operator()<Block, true>();
    else
      run.template operator()<Block, false>();
  };
  if (block == 16)
    with_relu.template operator()<16>();
  else if (block == 8)
    with_relu.template operator()<8>();
  else
    with_relu.template operator()<1>();
}

} // namespace

batch_norm_result onednn_backend::batch_norm2d_forward(const batch_norm_args& args, const tensor& x,
                                                       const tensor& scale, const tensor& shift, bool relu) {
  const tensor source = in_activation_format(x);
  const std::int64_t block = source.is_plain() ? 1 : channel_block_;
  const norm_extent extent(x.dims(), block);
  batch_norm_result result;
  result.y = allocate(dtype::f32, x.dims(), memory_use::activations, source.format());
  result.mean = allocate(dtype::f32, {x.dim(1)}, memory_use::activations);
  result.variance = allocate(dtype::f32, {x.dim(1)}, memory_use::activations);
  if (relu) result.workspace = allocate(dtype::f32, {extent.blocks, 2, block}, memory_use::activations);
  with_constants(block, relu, [&]<int Block, bool Relu>() {
    train_forward<Block, Relu>(args, extent, partial_sums_, source, scale, shift, result);
  });
  return result;
}

layer_gradients onednn_backend::batch_norm2d_backward(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                                      const batch_norm_result& saved, bool relu, tensor dy,
                                                      bool want_dx) {
  const tensor source = in_activation_format(x);
  const std::int64_t block = source.is_plain() ? 1 : channel_block_;
  if (!same_format(dy.format(), source.format())) dy = reorder(dy, source.format(), memory_use::gradients);
  layer_gradients gradients;
  if (want_dx)
    gradients.input = dy.is_unique() ? dy : allocate(dtype::f32, x.dims(), memory_use::gradients, source.format());
  gradients.weight = allocate(dtype::f32, {x.dim(1)}, memory_use::gradients);
  gradients.bias = allocate(dtype::f32, {x.dim(1)}, memory_use::gradients);
  with_constants(block, relu, [&]<int Block, bool Relu>() {
    train_backward<Block, Relu>(args, norm_extent(x.dims(), Block), partial_sums_, source, scale, saved, dy, gradients);
  });
  return gradients;
}

tensor onednn_backend::batch_norm2d_inference(const batch_norm_args& args, const tensor& x, const tensor& scale,
                                              const tensor& shift, const tensor& mean, const tensor& variance,
                                              bool relu) {
  const auto key = make_key(operation::norm_inference, x.dims(), relu, std::bit_cast<std::int32_t>(args.epsilon));
  const tensor source = in_activation_format(x);
  auto& entry = *find_or_make(norms_, key, [&] {
    auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift |
                 dnnl::normalization_flags::use_global_stats;
    if (relu) flags |= dnnl::normalization_flags::fuse_norm_relu;
    const dnnl::batch_normalization_forward::primitive_desc pd(
        {dnnl::prop_kind::forward_inference, description_of(source), args.epsilon, flags}, user_scratchpad(), engine_);
    auto made = std::make_shared<norm_entry>();
    made->run = bound_primitive(pd, dnnl::batch_normalization_forward(pd),
                                {{DNNL_ARG_SRC, pd.src_desc()},
                                 {DNNL_ARG_SCALE, pd.weights_desc()},
                                 {DNNL_ARG_SHIFT, pd.weights_desc()},
                                 {DNNL_ARG_MEAN, pd.mean_desc()},
                                 {DNNL_ARG_VARIANCE, pd.variance_desc()},
                                 {DNNL_ARG_DST, pd.dst_desc()}});
    return made;
  });
  tensor y = allocate(dtype::f32, x.dims(), memory_use::activations, source.format());
  execute(entry.run, {{DNNL_ARG_SRC, source.raw()},
                      {DNNL_ARG_SCALE, scale.raw()},
                      {DNNL_ARG_SHIFT, shift.raw()},
                      {DNNL_ARG_MEAN, mean.raw()},
                      {DNNL_ARG_VARIANCE, variance.raw()},
                      {DNNL_ARG_DST, y.raw()}});
  return y;
}

} // namespace penstock
