// Attention: for each head of each sample, blocks of queries against all keys. Scores of a block stay in the second
// cache, and probabilities are computed again in the backward.
#include "kernels/cpu/block_product.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/onednn_attention.hpp"
#include "kernels/cpu/vector_loop.hpp"
#include "kernels/cpu/vector_math.hpp"
#include "kernels/dropout_random.hpp"

#include <cmath>

namespace penstock {

namespace {

constexpr std::int64_t block_queries = 66; // in a block, at most

template <class Body>
void run(const Body& body) {
  run_vectorized(widest_vectors(), 0, 1, body);
}

// Rows of `width` floats, filled up with zeros to `filled` rows of `filled_width`, times a factor.
void pack(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t width, std::int64_t filled,
          std::int64_t filled_width, float factor, float* to) {
  run([=](std::int64_t, std::int64_t) PENSTOCK_VECTORIZED {
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* in = from + r * stride;
      float* out = to + r * filled_width;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i)
        out[i] = in[i] * factor;
      for (std::int64_t i = width; i < filled_width; ++i)
        out[i] = 0;
    }
    std::fill(to + rows * filled_width, to + filled * filled_width, 0.0F);
  });
}

void unpack(const float* from, std::int64_t filled_width, std::int64_t rows, std::int64_t width, float factor,
            float* to, std::int64_t stride) {
  run([=](std::int64_t, std::int64_t) PENSTOCK_VECTORIZED {
    for (std::int64_t r = 0; r < rows; ++r)
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i)
        to[r * stride + i] = from[r * filled_width + i] * factor;
  });
}

// Scratch memory of a thread, and the extents of what lies in it.
struct workspace {
  std::int64_t width;  // of a head, filled up
  std::int64_t keys;   // filled up to whole panels
  std::int64_t scores; // from a query's scores to the next query's
  std::int64_t block;  // queries in a block
  std::int64_t floats; // of one thread

  workspace(const attention_geometry& g, bool backward)
      : width(filled_up(g.head, product_columns)), keys(filled_up(g.keys + product_rows, panel_columns)),
        scores(filled_up(g.keys, product_columns) + product_columns) {
    const std::int64_t blocks = (g.queries + block_queries - 1) / block_queries;
    block = filled_up((g.queries + blocks - 1) / blocks, product_rows);
    floats = (backward ? 5 : 3) * keys * width + (backward ? 3 : 2) * block * width +
             (backward ? 2 : 1) * block * scores + scores;
  }
};

// One head of one sample; what forward and backward share.
struct head_work {
  const attention_args& args;
  const attention_geometry& g;
  const workspace& w;
  std::int64_t sample, head, stride, length;
  const float *q, *k, *v;
  float* free; // of the scratch memory

  float* take(std::int64_t count) { return std::exchange(free, free + count); }
  std::int64_t seen(std::int64_t query) const { return args.causal ? std::min(length, query + 1) : length; }

  // scores (rows x seen keys) = a b^T, b in panels.
  void multiply_panels(const float* a, std::int64_t rows, const float* panels, std::int64_t seen_keys,
                       float* scores) const {
    const std::int64_t columns = filled_up(seen_keys, product_columns);
    for (std::int64_t first = 0; first < columns; first += panel_columns)
      block_product({a, w.width, 1, panels + first * w.width, panel_columns, scores + first, w.scores,
                     filled_up(rows, product_rows), std::min(panel_columns, columns - first), g.head, false});
  }
};

struct forward_work : head_work {
  float *y, *log_sums;

  void operator()() {
    float *rows = take(w.keys * w.width), *panels = take(w.keys * w.width), *values = take(w.keys * w.width);
    float *queries = take(w.block * w.width), *sums = take(w.block * w.width), *scores = take(w.block * w.scores);
    float* shares = take(w.scores);
    const std::int64_t filled = filled_up(length, product_columns);
    pack(k, stride, length, g.head, filled, w.width, 1, rows);
    transpose_into_panels(rows, filled, w.width, panels);
    pack(v, stride, length, g.head, filled, w.width, 1, values);
    for (std::int64_t first = 0; first < g.queries; first += w.block) {
      const std::int64_t count = std::min(w.block, g.queries - first), most = seen(first + count - 1);
      pack(q + first * stride, stride, count, g.head, filled_up(count, product_rows), w.width, args.scale, queries);
      multiply_panels(queries, count, panels, most, scores);
      float factors[block_queries + product_rows];
      for (std::int64_t r = 0; r < count; ++r)
        factors[r] = soften(first + r, most, scores + r * w.scores, shares);
      block_product(
          {scores, w.scores, 1, values, w.width, sums, w.width, filled_up(count, product_rows), w.width, most, false});
      for (std::int64_t r = 0; r < count; ++r)
        unpack(sums + r * w.width, w.width, 1, g.head, factors[r], y + (first + r) * g.width, g.width);
    }
  }

  // The scores of a query become exp(score - greatest), dropout's zeros among them. Returns what makes shares of them.
  float soften(std::int64_t query, std::int64_t most, float* row, float* shares) const {
    const std::int64_t count = seen(query);
    std::fill(row + count, row + filled_up(most, product_columns), 0.0F);
    if (count == 0) {
      log_sums[query] = 0;
      return 0;
    }
    const dropout_random random(args.key, args.dropout);
    const auto element = g.element(sample, head, query);
    const bool drops = args.dropout > 0;
    float greatest = 0, sum = 0;
    run([&, count, row, shares](std::int64_t, std::int64_t) PENSTOCK_VECTORIZED {
      const float top = greatest_of(row, count);
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j)
        row[j] = exp_of(row[j] - top);
      greatest = top;
      sum = sum_of(row, count);
      if (!drops) return;
      random.multipliers(element, count, shares);
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j)
        row[j] *= shares[j];
    });
    log_sums[query] = greatest + std::log(sum);
    return 1.0F / sum;
  }
};

struct backward_work : head_work {
  const float *dy, *log_sums;
  float *dq, *dk, *dv;

  void operator()() {
    float *rows = take(w.keys * w.width), *key_panels = take(w.keys * w.width), *value_panels = take(w.keys * w.width);
    float *key_sums = take(w.keys * w.width), *value_sums = take(w.keys * w.width);
    float *queries = take(w.block * w.width), *gradients = take(w.block * w.width), *sums = take(w.block * w.width);
    float *scores = take(w.block * w.scores), *slopes = take(w.block * w.scores), *shares = take(w.scores);
    const std::int64_t filled = filled_up(length, product_columns);
    pack(v, stride, length, g.head, filled, w.width, 1, rows);
    transpose_into_panels(rows, filled, w.width, value_panels);
    pack(k, stride, length, g.head, filled, w.width, 1, rows);
    transpose_into_panels(rows, filled, w.width, key_panels);
    std::fill_n(key_sums, filled_up(length, product_rows) * w.width, 0.0F);
    std::fill_n(value_sums, filled_up(length, product_rows) * w.width, 0.0F);
    for (std::int64_t first = 0; first < g.queries; first += w.block) {
      const std::int64_t count = std::min(w.block, g.queries - first), most = seen(first + count - 1);
      const std::int64_t count_filled = filled_up(count, product_rows), most_filled = filled_up(most, product_rows);
      pack(q + first * stride, stride, count, g.head, count_filled, w.width, args.scale, queries);
      pack(dy + first * g.width, g.width, count, g.head, count_filled, w.width, 1, gradients);
      multiply_panels(queries, count, key_panels, most, scores);
      multiply_panels(gradients, count, value_panels, most, slopes);
      for (std::int64_t r = 0; r < count; ++r)
        differentiate(first + r, most, scores + r * w.scores, slopes + r * w.scores, shares);
      block_product({scores, 1, w.scores, gradients, w.width, value_sums, w.width, most_filled, w.width, count, true});
      block_product({slopes, 1, w.scores, queries, w.width, key_sums, w.width, most_filled, w.width, count, true});
      block_product({slopes, w.scores, 1, rows, w.width, sums, w.width, count_filled, w.width, most, false});
      unpack(sums, w.width, count, g.head, args.scale, dq + first * stride, stride);
    }
    unpack(key_sums, w.width, length, g.head, 1, dk, stride);
    unpack(value_sums, w.width, length, g.head, 1, dv, stride);
    for (std::int64_t j = length; j < g.keys; ++j) {
      std::fill_n(dk + j * stride, g.head, 0.0F);
      std::fill_n(dv + j * stride, g.head, 0.0F);
    }
  }

  // The scores of a query become its probabilities after dropout, the gradients of those (`slopes`) become the scores'.
  void differentiate(std::int64_t query, std::int64_t most, float* row, float* slopes, float* shares) const {
    const std::int64_t count = seen(query), end = filled_up(most, product_columns) + product_columns;
    std::fill(row + count, row + end, 0.0F);
    std::fill(slopes + count, slopes + end, 0.0F);
    const dropout_random random(args.key, args.dropout);
    const auto element = g.element(sample, head, query);
    const bool drops = args.dropout > 0;
    const float log_sum = log_sums[query];
    run([&, count, row, slopes, shares](std::int64_t, std::int64_t) PENSTOCK_VECTORIZED {
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j)
        row[j] = exp_of(row[j] - log_sum);
      if (drops) {
        random.multipliers(element, count, shares);
#pragma omp simd
        for (std::int64_t j = 0; j < count; ++j)
          slopes[j] *= shares[j];
      }
      const float projection = dot_of(row, slopes, count);
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j)
        slopes[j] = row[j] * (slopes[j] - projection);
      if (!drops) return;
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j)
        row[j] *= shares[j];
    });
  }
};

// Calls work(sample, head, scratch) for all, each on one thread.
template <class Work>
void for_heads(onednn_context& context, const attention_geometry& g, std::int64_t floats, const Work& work) {
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), g.batch * g.heads));
  const tensor scratch = context.allocate(dtype::f32, {std::max(threads, 1), floats}, memory_use::scratch);
  float* all = scratch.data<float>();
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
  for (std::int64_t i = 0; i < g.batch * g.heads; ++i)
    work(i / g.heads, i % g.heads, all + omp_get_thread_num() * floats);
}

} // namespace

attention_result onednn_attention::attention_forward(const attention_args& args, std::span<const tensor> qkv,
                                                     const tensor& lengths) {
  const attention_geometry g(args, qkv);
  const workspace w(g, false);
  attention_result result;
  result.y = context_.allocate(dtype::f32, {g.batch, g.queries, g.width}, memory_use::activations);
  result.log_sums = context_.allocate(dtype::f32, {g.batch, g.heads, g.queries}, memory_use::activations);
  float *y = result.y.data<float>(), *log_sums = result.log_sums.data<float>();
  for_heads(context_, g, w.floats, [&](std::int64_t b, std::int64_t h, float* scratch) {
    forward_work{{args, g, w, b, h, g.stride(qkv), g.length(lengths, b), g.at(qkv, 0, b, h), g.at(qkv, 1, b, h),
                  g.at(qkv, 2, b, h), scratch},
                 y + b * g.queries * g.width + h * g.head,
                 log_sums + (b * g.heads + h) * g.queries}();
  });
  return result;
}

std::vector<tensor> onednn_attention::attention_backward(const attention_args& args, std::span<const tensor> qkv,
                                                         const tensor& lengths, const tensor& log_sums,
                                                         const tensor& dy) {
  const attention_geometry g(args, qkv);
  const workspace w(g, true);
  std::vector<tensor> gradients;
  for (const tensor& x : qkv)
    gradients.push_back(context_.allocate(dtype::f32, x.dims(), memory_use::gradients));
  const float *slopes = dy.data<float>(), *sums = log_sums.data<float>();
  for_heads(context_, g, w.floats, [&](std::int64_t b, std::int64_t h, float* scratch) {
    backward_work{{args, g, w, b, h, g.stride(qkv), g.length(lengths, b), g.at(qkv, 0, b, h), g.at(qkv, 1, b, h),
                   g.at(qkv, 2, b, h), scratch},
                  slopes + b * g.queries * g.width + h * g.head,
                  sums + (b * g.heads + h) * g.queries,
                  g.at(gradients, 0, b, h),
                  g.at(gradients, 1, b, h),
                  g.at(gradients, 2, b, h)}();
  });
  return gradients;
}

} // namespace penstock
