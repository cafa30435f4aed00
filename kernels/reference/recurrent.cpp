// Additive attention, locked dropout and AWD-LSTM's penalties by their formulas.
#include "kernels/dropout_random.hpp"
#include "kernels/reference/reference_recurrent.hpp"

#include <algorithm>
#include <cmath>

namespace penstock {

namespace {

std::int64_t keys_of(const additive_inputs& inputs, std::int64_t row) {
  const std::int64_t all = inputs.key.dim(1);
  return inputs.lengths ? std::clamp<std::int64_t>(inputs.lengths.data<std::int64_t>()[row], 0, all) : all;
}

double norm_of(const tensor& x) {
  double sum = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i)
    sum += static_cast<double>(x.data<float>()[i]) * x.data<float>()[i];
  return std::sqrt(sum);
}

// tanh(q_i + k_j + b) of one feature.
double energy(const additive_inputs& inputs, std::int64_t query, std::int64_t key, std::int64_t f) {
  const std::int64_t features = inputs.vector.elements();
  return std::tanh(static_cast<double>(inputs.query.data<float>()[query * features + f]) +
                   inputs.key.data<float>()[key * features + f] + inputs.bias.data<float>()[f]);
}

} // namespace

additive_result reference_recurrent::additive_attention(const additive_inputs& inputs) {
  const std::int64_t rows = inputs.query.dim(0), queries = inputs.query.dim(1), keys = inputs.key.dim(1);
  const std::int64_t features = inputs.vector.elements(), depth = inputs.value.dim(2);
  const double factor = static_cast<double>(inputs.scalar.data<float>()[0]) / norm_of(inputs.vector);
  additive_result result;
  result.context = memory_.allocate_activation({rows, queries, depth});
  result.probabilities = memory_.allocate_activation({rows, queries, keys});
  std::vector<double> scores(static_cast<std::size_t>(keys));
  for (std::int64_t n = 0; n < rows * queries; ++n) {
    const std::int64_t row = n / queries, within = keys_of(inputs, row);
    double greatest = 0, sum = 0;
    for (std::int64_t j = 0; j < within; ++j) {
      double score = 0;
      for (std::int64_t f = 0; f < features; ++f)
        score += inputs.vector.data<float>()[f] * energy(inputs, n, row * keys + j, f);
      scores[static_cast<std::size_t>(j)] = score * factor;
      greatest = j == 0 ? score * factor : std::max(greatest, score * factor);
    }
    for (std::int64_t j = 0; j < within; ++j)
      sum += std::exp(scores[static_cast<std::size_t>(j)] - greatest);
    float* p = result.probabilities.data<float>() + n * keys;
    for (std::int64_t j = 0; j < keys; ++j)
      p[j] = j < within ? static_cast<float>(std::exp(scores[static_cast<std::size_t>(j)] - greatest) / sum) : 0.0F;
    for (std::int64_t d = 0; d < depth; ++d) {
      double mixed = 0;
      for (std::int64_t j = 0; j < within; ++j)
        mixed += static_cast<double>(p[j]) * inputs.value.data<float>()[(row * keys + j) * depth + d];
      result.context.data<float>()[n * depth + d] = static_cast<float>(mixed);
    }
  }
  return result;
}

additive_gradients reference_recurrent::additive_attention_backward(const additive_inputs& inputs,
                                                                    const tensor& probabilities,
                                                                    const tensor& dcontext) {
  const std::int64_t rows = inputs.query.dim(0), queries = inputs.query.dim(1), keys = inputs.key.dim(1);
  const std::int64_t features = inputs.vector.elements(), depth = inputs.value.dim(2);
  const double norm = norm_of(inputs.vector), scalar = inputs.scalar.data<float>()[0], factor = scalar / norm;
  const auto zeros = [](const tensor& x) { return std::vector<double>(static_cast<std::size_t>(x.elements())); };
  auto dq = zeros(inputs.query), dk = zeros(inputs.key), dvalue = zeros(inputs.value), dv = zeros(inputs.vector),
       db = zeros(inputs.bias);
  for (std::int64_t n = 0; n < rows * queries; ++n) {
    const std::int64_t row = n / queries, within = keys_of(inputs, row);
    const float* p = probabilities.data<float>() + n * keys;
    const float* dy = dcontext.data<float>() + n * depth;
    std::vector<double> dp(static_cast<std::size_t>(within));
    double mean = 0;
    for (std::int64_t j = 0; j < within; ++j) {
      for (std::int64_t d = 0; d < depth; ++d) {
        dp[static_cast<std::size_t>(j)] +=
            static_cast<double>(dy[d]) * inputs.value.data<float>()[(row * keys + j) * depth + d];
        dvalue[static_cast<std::size_t>((row * keys + j) * depth + d)] += static_cast<double>(p[j]) * dy[d];
      }
      mean += p[j] * dp[static_cast<std::size_t>(j)];
    }
    for (std::int64_t j = 0; j < within; ++j) {
      const double ds = p[j] * (dp[static_cast<std::size_t>(j)] - mean);
      for (std::int64_t f = 0; f < features; ++f) {
        const double t = energy(inputs, n, row * keys + j, f);
        const double inner = ds * factor * inputs.vector.data<float>()[f] * (1 - t * t);
        dv[static_cast<std::size_t>(f)] += ds * t;
        dq[static_cast<std::size_t>(n * features + f)] += inner;
        dk[static_cast<std::size_t>((row * keys + j) * features + f)] += inner;
        db[static_cast<std::size_t>(f)] += inner;
      }
    }
  }
  // v = g u / |u|
  double along = 0;
  for (std::int64_t f = 0; f < features; ++f)
    along += inputs.vector.data<float>()[f] / norm * dv[static_cast<std::size_t>(f)];
  for (std::int64_t f = 0; f < features; ++f)
    dv[static_cast<std::size_t>(f)] =
        factor * (dv[static_cast<std::size_t>(f)] - inputs.vector.data<float>()[f] / norm * along);
  const auto tensor_of = [&](const std::vector<double>& values, const shape& dims) {
    tensor x = memory_.allocate(dtype::f32, dims, memory_use::gradients);
    std::transform(values.begin(), values.end(), x.data<float>(), [](double v) { return static_cast<float>(v); });
    return x;
  };
  return {.query = tensor_of(dq, inputs.query.dims()),
          .key = tensor_of(dk, inputs.key.dims()),
          .value = tensor_of(dvalue, inputs.value.dims()),
          .vector = tensor_of(dv, inputs.vector.dims()),
          .scalar = tensor_of({along}, inputs.scalar.dims()),
          .bias = tensor_of(db, inputs.bias.dims())};
}

tensor reference_recurrent::locked_dropout(const random_key& key, float p, const tensor& x) {
  tensor y = memory_.allocate_activation(x.dims());
  const dropout_random random(key, p);
  const std::int64_t steps = x.dim(1), features = x.dim(2);
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const std::int64_t row = i / (steps * features), f = i % features;
    const bool keeps = random.keeps(static_cast<std::uint64_t>(row * features + f));
    y.data<float>()[i] = keeps ? x.data<float>()[i] * random.scale() : 0.0F;
  }
  return y;
}

tensor reference_recurrent::penalty_sum(penalty kind, const tensor& h, double factor) {
  const std::int64_t steps = h.dim(1), features = h.dim(2);
  const float* x = h.data<float>();
  double sum = 0;
  for (std::int64_t i = 0; i < h.elements(); ++i) {
    const bool first = i / features % steps == 0;
    const double value = kind == penalty::activation ? x[i] : first ? 0 : x[i] - static_cast<double>(x[i - features]);
    sum += value * value;
  }
  tensor result = memory_.allocate(dtype::f64, {1}, memory_use::scratch);
  result.data<double>()[0] = factor * sum;
  return result;
}

tensor reference_recurrent::penalty_gradient(penalty kind, const tensor& h, float factor) {
  const std::int64_t steps = h.dim(1), features = h.dim(2);
  const float* x = h.data<float>();
  tensor dh = memory_.allocate_activation(h.dims());
  for (std::int64_t i = 0; i < h.elements(); ++i) {
    const std::int64_t t = i / features % steps;
    double slope = x[i];
    if (kind == penalty::step) {
      slope = t > 0 ? x[i] - static_cast<double>(x[i - features]) : 0;
      if (t + 1 < steps) slope -= x[i + features] - static_cast<double>(x[i]);
    }
    dh.data<float>()[i] = static_cast<float>(2 * slope * factor);
  }
  return dh;
}

} // namespace penstock
