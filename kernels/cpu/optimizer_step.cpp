// Optimizer steps: one pass over memory each, PyTorch's formulas.
#include "kernels/check.hpp"
#include "kernels/cpu/onednn_optimizer.hpp"
#include "kernels/cpu/vector_loop.hpp"

#include <atomic>
#include <cmath>

namespace penstock {

namespace {

void require_alike(const tensor& weight, const tensor& other) {
  check(other.dims() == weight.dims() && same_format(other.format(), weight.format()),
        "an optimizer step needs the parameter's own shape and format throughout");
}

// As element_loop, where body(begin, end) returns a sum that is 0 when every value it wrote is finite, else NaN.
template <class Body>
bool finite_loop(std::int64_t count, const Body& body) {
  std::atomic<bool> finite = true;
  element_loop(count, [&](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    const Body own = body; // a local copy, which the loop's stores cannot alter: or it is not vectorised
    if (own(begin, end) != 0.0F) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load(std::memory_order_relaxed);
}

// Nesterov and weight decay are template parameters so that the plain case pays for neither.
template <bool Nesterov>
bool momentum_step(const sgd_args& args, std::int64_t count, const float* weight, const float* gradient,
                   float* momentum, float* next) {
  const float rate = args.learning_rate, keep = args.momentum, decay = args.weight_decay, scale = args.gradient_scale;
  return finite_loop(count, [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    float strange = 0;
#pragma omp simd reduction(+ : strange)
    for (std::int64_t i = begin; i < end; ++i) {
      const float w = weight[i];
      const float g = gradient[i] * scale + decay * w;
      const float m = keep * momentum[i] + g;
      momentum[i] = m;
      const float updated = w - rate * (Nesterov ? g + keep * m : m);
      next[i] = updated;
      strange += updated * 0.0F;
    }
    return strange;
  });
}

// The steps themselves: true when every value written into `next` is finite.

bool sgd(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum, tensor& next) {
  require_alike(weight, gradient);
  require_alike(weight, next);
  const std::int64_t count = weight.stored_elements();
  const float* w = weight.data<float>();
  const float* g = gradient.data<float>();
  float* out = next.data<float>();
  if (args.momentum == 0.0F) {
    const float rate = args.learning_rate, decay = args.weight_decay, scale = args.gradient_scale;
    return finite_loop(count, [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
      float strange = 0;
#pragma omp simd reduction(+ : strange)
      for (std::int64_t i = begin; i < end; ++i) {
        const float updated = w[i] - rate * (g[i] * scale + decay * w[i]);
        out[i] = updated;
        strange += updated * 0.0F;
      }
      return strange;
    });
  }
  require_alike(weight, momentum);
  if (args.nesterov) return momentum_step<true>(args, count, w, g, momentum.data<float>(), out);
  return momentum_step<false>(args, count, w, g, momentum.data<float>(), out);
}

// Where the decay is decoupled the gradient is not touched: template parameters, so that no bit of AdamW changes.
template <bool Decoupled>
bool adam(const adam_args& args, const tensor& weight, const tensor& gradient, tensor& first_moment,
          tensor& second_moment, tensor& next) {
  require_alike(weight, gradient);
  require_alike(weight, first_moment);
  require_alike(weight, second_moment);
  require_alike(weight, next);
  const float* w = weight.data<float>();
  const float* g = gradient.data<float>();
  float* m = first_moment.data<float>();
  float* v = second_moment.data<float>();
  float* out = next.data<float>();
  // What a moment that began with zero lacks of a mean.
  const auto correction = [&](float beta) {
    return args.step > 0 ? 1.0 - std::pow(static_cast<double>(beta), static_cast<double>(args.step)) : 1.0;
  };
  const auto shrink =
      Decoupled ? static_cast<float>(1.0 - static_cast<double>(args.learning_rate) * args.weight_decay) : 1.0F;
  const auto rate = static_cast<float>(args.learning_rate / correction(args.beta1));
  const auto root = static_cast<float>(1.0 / std::sqrt(correction(args.beta2)));
  const float decay = args.weight_decay;
  const float scale = args.gradient_scale, beta1 = args.beta1, beta2 = args.beta2, epsilon = args.epsilon;
  return finite_loop(weight.stored_elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    float strange = 0;
#pragma omp simd reduction(+ : strange)
    for (std::int64_t i = begin; i < end; ++i) {
      const float gradient_i = Decoupled ? g[i] * scale : g[i] * scale + decay * w[i];
      const float first = m[i] + (1.0F - beta1) * (gradient_i - m[i]);
      const float second = beta2 * v[i] + (1.0F - beta2) * gradient_i * gradient_i;
      m[i] = first;
      v[i] = second;
      const float updated = w[i] * shrink - rate * first / (__builtin_sqrtf(second) * root + epsilon);
      out[i] = updated;
      strange += updated * 0.0F;
    }
    return strange;
  });
}

} // namespace

void onednn_optimizer::sgd_step(const sgd_args& args, const tensor& weight, const tensor& gradient, tensor& momentum,
                                tensor& next, const tensor& strange, std::int64_t index) {
  strange.data<std::int32_t>()[index] = sgd(args, weight, gradient, momentum, next) ? 0 : 1;
}

void onednn_optimizer::adam_step(const adam_args& args, const tensor& weight, const tensor& gradient,
                                 tensor& first_moment, tensor& second_moment, tensor& next, const tensor& strange,
                                 std::int64_t index) {
  const auto step = args.decoupled ? adam<true> : adam<false>;
  strange.data<std::int32_t>()[index] = step(args, weight, gradient, first_moment, second_moment, next) ? 0 : 1;
}

void onednn_optimizer::count_into_average(float share, const tensor& x, const tensor& average) {
  require_alike(x, average);
  const float* in = x.data<float>();
  float* mean = average.data<float>();
  element_loop(x.stored_elements(), [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    const float part = share;
    for (std::int64_t i = begin; i < end; ++i)
      mean[i] += part * (in[i] - mean[i]);
  });
}

void onednn_optimizer::sum_of_squares(const tensor& x, const tensor& sums, std::int64_t index) {
  // Fixed chunks, added in order: the same value for any number of threads.
  constexpr std::int64_t chunk = 1 << 14;
  const std::int64_t count = x.stored_elements();
  const std::int64_t chunks = (count + chunk - 1) / chunk;
  partial_sums_.assign(static_cast<std::size_t>(chunks), 0.0);
  const float* in = x.data<float>();
  double* partial = partial_sums_.data();
  vector_loop(chunks, 1, 4, [=](std::int64_t begin, std::int64_t end) PENSTOCK_VECTORIZED {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t last = std::min((c + 1) * chunk, count);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = c * chunk; i < last; ++i)
        sum += static_cast<double>(in[i]) * static_cast<double>(in[i]);
      partial[c] = sum;
    }
  });
  double total = 0;
  for (const double p : partial_sums_)
    total += p;
  sums.data<double>()[index] = total;
}

} // namespace penstock
