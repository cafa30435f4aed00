// Attention by its definition, one query after another, in double.
#include "kernels/dropout_random.hpp"
#include "kernels/reference/reference_attention.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

namespace {

// One head of one sample.
struct one_head {
  attention_geometry geometry;
  const attention_args& args;
  dropout_random random;
  std::int64_t sample, head, length, stride;
  const float *q, *k, *v;

  one_head(const attention_args& all, std::span<const tensor> qkv, const tensor& lengths, std::int64_t of_sample,
           std::int64_t of_head)
      : geometry(all, qkv), args(all), random(all.key, all.dropout), sample(of_sample), head(of_head),
        length(geometry.length(lengths, sample)), stride(geometry.stride(qkv)), q(geometry.at(qkv, 0, sample, head)),
        k(geometry.at(qkv, 1, sample, head)), v(geometry.at(qkv, 2, sample, head)) {}

  std::int64_t seen(std::int64_t query) const { return args.causal ? std::min(length, query + 1) : length; }

  double score(std::int64_t query, std::int64_t key) const {
    double sum = 0;
    for (std::int64_t d = 0; d < geometry.head; ++d)
      sum += static_cast<double>(q[query * stride + d]) * k[key * stride + d];
    return sum * args.scale;
  }
  // What dropout multiplies a probability by.
  double share(std::int64_t query, std::int64_t key) const {
    if (args.dropout <= 0) return 1;
    const auto element = geometry.element(sample, head, query) + static_cast<std::uint64_t>(key);
    return random.keeps(element) ? random.scale() : 0.0F;
  }
};

} // namespace

attention_result reference_attention::attention_forward(const attention_args& args, std::span<const tensor> qkv,
                                                        const tensor& lengths) {
  const attention_geometry g(args, qkv);
  attention_result result;
  result.y = memory_.allocate_activation({g.batch, g.queries, g.width});
  result.log_sums = memory_.allocate_activation({g.batch, g.heads, g.queries});
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.heads; ++h) {
      const one_head head(args, qkv, lengths, b, h);
      for (std::int64_t i = 0; i < g.queries; ++i) {
        const std::int64_t seen = head.seen(i);
        std::vector<double> p(static_cast<std::size_t>(seen)), sums(static_cast<std::size_t>(g.head));
        double greatest = -HUGE_VAL, sum = 0;
        for (std::int64_t j = 0; j < seen; ++j)
          greatest = std::max(greatest, p[static_cast<std::size_t>(j)] = head.score(i, j));
        for (double& score : p)
          sum += score = std::exp(score - greatest);
        for (std::int64_t j = 0; j < seen; ++j)
          for (std::int64_t d = 0; d < g.head; ++d)
            sums[static_cast<std::size_t>(d)] +=
                p[static_cast<std::size_t>(j)] / sum * head.share(i, j) * head.v[j * head.stride + d];
        std::copy(sums.begin(), sums.end(), result.y.data<float>() + (b * g.queries + i) * g.width + h * g.head);
        result.log_sums.data<float>()[(b * g.heads + h) * g.queries + i] =
            seen == 0 ? 0.0F : static_cast<float>(greatest + std::log(sum));
      }
    }
  return result;
}

std::vector<tensor> reference_attention::attention_backward(const attention_args& args, std::span<const tensor> qkv,
                                                            const tensor& lengths, const tensor& log_sums,
                                                            const tensor& dy) {
  const attention_geometry g(args, qkv);
  std::vector<tensor> gradients;
  for (const tensor& x : qkv)
    gradients.push_back(memory_.allocate_zeroed(dtype::f32, x.dims(), memory_use::gradients));
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.heads; ++h) {
      const one_head head(args, qkv, lengths, b, h);
      const auto count = static_cast<std::size_t>(g.keys * g.head);
      std::vector<double> dk(count), dv(count);
      for (std::int64_t i = 0; i < g.queries; ++i) {
        const auto seen = static_cast<std::size_t>(head.seen(i));
        const float* gradient = dy.data<float>() + (b * g.queries + i) * g.width + h * g.head;
        const double log_sum = log_sums.data<float>()[(b * g.heads + h) * g.queries + i];
        std::vector<double> p(seen), dp(seen), dq(static_cast<std::size_t>(g.head));
        double projection = 0; // sum of p dp
        for (std::size_t j = 0; j < seen; ++j) {
          const auto key = static_cast<std::int64_t>(j);
          p[j] = std::exp(head.score(i, key) - log_sum);
          for (std::int64_t d = 0; d < g.head; ++d) {
            dp[j] += static_cast<double>(gradient[d]) * head.v[key * head.stride + d];
            dv[j * static_cast<std::size_t>(g.head) + static_cast<std::size_t>(d)] +=
                p[j] * head.share(i, key) * gradient[d];
          }
          dp[j] *= head.share(i, key);
          projection += p[j] * dp[j];
        }
        for (std::size_t j = 0; j < seen; ++j) {
          const double ds = p[j] * (dp[j] - projection) * args.scale;
          for (std::int64_t d = 0; d < g.head; ++d) {
            const auto feature = static_cast<std::size_t>(d);
            dq[feature] += ds * head.k[static_cast<std::int64_t>(j) * head.stride + d];
            dk[j * static_cast<std::size_t>(g.head) + feature] += ds * head.q[i * head.stride + d];
          }
        }
        std::copy(dq.begin(), dq.end(), g.at(gradients, 0, b, h) + i * head.stride);
      }
      for (std::int64_t j = 0; j < g.keys; ++j) {
        const auto from = static_cast<std::ptrdiff_t>(j * g.head), to = static_cast<std::ptrdiff_t>((j + 1) * g.head);
        std::copy(dk.begin() + from, dk.begin() + to, g.at(gradients, 1, b, h) + j * head.stride);
        std::copy(dv.begin() + from, dv.begin() + to, g.at(gradients, 2, b, h) + j * head.stride);
      }
    }
  return gradients;
}

} // namespace penstock
