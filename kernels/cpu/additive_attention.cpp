// Additive attention: each row of the batch by one thread, the tanh of each query, key and vector of features in
// registers alone, computed again in the backward.
#include "kernels/check.hpp"
#include "kernels/cpu/lane_math.hpp"
#include "kernels/cpu/onednn_recurrent.hpp"
#include "kernels/cpu/vector_loop.hpp"

#include <cmath>
#include <cstring>

namespace penstock {

namespace {

std::int64_t keys_of(const additive_inputs& inputs, std::int64_t row) {
  const std::int64_t all = inputs.key.dim(1);
  return inputs.lengths ? std::clamp<std::int64_t>(inputs.lengths.data<std::int64_t>()[row], 0, all) : all;
}

double norm_of(const tensor& x) {
  double sum = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i)
    sum += static_cast<double>(x.data<float>()[i]) * static_cast<double>(x.data<float>()[i]);
  return std::sqrt(sum);
}

// Vectors of a row, the last of which may have less than all lanes: those are zero.
template <int Lanes>
struct row_lanes {
  using vec = typename lanes_of<Lanes>::vec;
  using mem = typename lanes_of<Lanes>::mem;

  PENSTOCK_INLINED static void load(const float* from, std::int64_t valid, vec& into) {
    if (valid >= Lanes) {
      into = *reinterpret_cast<const mem*>(from);
    } else {
      into = vec{};
      std::memcpy(&into, from, static_cast<std::size_t>(valid) * sizeof(float));
    }
  }
  PENSTOCK_INLINED static void store(float* to, std::int64_t valid, const vec& from) {
    if (valid >= Lanes)
      *reinterpret_cast<mem*>(to) = from;
    else
      std::memcpy(to, &from, static_cast<std::size_t>(valid) * sizeof(float));
  }
  PENSTOCK_INLINED static float total(const vec& x) {
    float each[Lanes], sum = 0;
    std::memcpy(each, &x, sizeof(each));
    for (const float value : each)
      sum += value;
    return sum;
  }
  PENSTOCK_INLINED static float dot(const float* a, const float* b, std::int64_t count) {
    vec sum{};
    for (std::int64_t i = 0; i < count; i += Lanes) {
      vec left, right;
      load(a + i, count - i, left);
      load(b + i, count - i, right);
      sum += left * right;
    }
    return total(sum);
  }
};

struct attention_call {
  const additive_inputs& inputs;
  std::int64_t rows, queries, keys, features, depth;
  float factor; // g / |u|
  const float *query, *key, *value, *vector, *bias;

  explicit attention_call(const additive_inputs& given)
      : inputs(given), rows(given.query.dim(0)), queries(given.query.dim(1)), keys(given.key.dim(1)),
        features(given.vector.elements()), depth(given.value.dim(2)),
        factor(static_cast<float>(static_cast<double>(given.scalar.data<float>()[0]) / norm_of(given.vector))),
        query(given.query.data<float>()), key(given.key.data<float>()), value(given.value.data<float>()),
        vector(given.vector.data<float>()), bias(given.bias.data<float>()) {}

  std::int64_t padded_keys() const { return (keys + 15) / 16 * 16; }

  template <int Lanes>
  PENSTOCK_INLINED float score(const float* q, const float* k) const {
    using lanes = row_lanes<Lanes>;
    typename lanes::vec sum{};
    for (std::int64_t f = 0; f < features; f += Lanes) {
      typename lanes::vec t, other, v;
      lanes::load(q + f, features - f, t);
      lanes::load(k + f, features - f, other);
      t += other;
      lanes::load(bias + f, features - f, other);
      t += other;
      tanh_in_place<Lanes>(t);
      lanes::load(vector + f, features - f, v);
      sum += v * t;
    }
    return lanes::total(sum) * factor;
  }

  // Of `scores`, padded to whole vectors.
  template <int Lanes>
  PENSTOCK_INLINED static void softmax(float* scores, std::int64_t count, float* p, std::int64_t all) {
    using lanes = row_lanes<Lanes>;
    float greatest = count > 0 ? scores[0] : 0.0F, sum = 0;
    for (std::int64_t j = 1; j < count; ++j)
      greatest = std::max(greatest, scores[j]);
    for (std::int64_t j = 0; j < count; j += Lanes) {
      typename lanes::vec x;
      lanes::load(scores + j, Lanes, x);
      x -= greatest;
      exponential_in_place<Lanes>(x);
      lanes::store(scores + j, Lanes, x);
    }
    for (std::int64_t j = 0; j < count; ++j)
      sum += scores[j];
    for (std::int64_t j = 0; j < all; ++j)
      p[j] = j < count ? scores[j] / sum : 0.0F;
  }

  template <int Lanes>
  PENSTOCK_INLINED void forward(std::int64_t row, float* scores, float* probabilities, float* context) const {
    using lanes = row_lanes<Lanes>;
    const std::int64_t within = keys_of(inputs, row);
    std::fill_n(scores, padded_keys(), 0.0F);
    for (std::int64_t i = row * queries; i < (row + 1) * queries; ++i) {
      for (std::int64_t j = 0; j < within; ++j)
        scores[j] = score<Lanes>(query + i * features, key + (row * keys + j) * features);
      float* p = probabilities + i * keys;
      softmax<Lanes>(scores, within, p, keys);
      for (std::int64_t d = 0; d < depth; d += Lanes) {
        typename lanes::vec sum{}, v;
        for (std::int64_t j = 0; j < within; ++j) {
          lanes::load(value + (row * keys + j) * depth + d, depth - d, v);
          sum += v * p[j];
        }
        lanes::store(context + i * depth + d, depth - d, sum);
      }
    }
  }
};

struct attention_slopes {
  const attention_call& call;
  const float *probabilities, *dcontext;
  float *dquery, *dkey, *dvalue;
  float *dvector, *dbias; // of each row of the batch

  template <int Lanes>
  PENSTOCK_INLINED void row_of(std::int64_t row, float* ds) const {
    using lanes = row_lanes<Lanes>;
    using vec = typename lanes::vec;
    const std::int64_t keys = call.keys, features = call.features, depth = call.depth;
    const std::int64_t within = keys_of(call.inputs, row);
    float *own_vector = dvector + row * features, *own_bias = dbias + row * features;
    std::fill_n(dkey + row * keys * features, keys * features, 0.0F);
    std::fill_n(dvalue + row * keys * depth, keys * depth, 0.0F);
    std::fill_n(own_vector, features, 0.0F);
    std::fill_n(own_bias, features, 0.0F);
    for (std::int64_t i = row * call.queries; i < (row + 1) * call.queries; ++i) {
      const float *p = probabilities + i * keys, *dy = dcontext + i * depth;
      float mean = 0;
      for (std::int64_t j = 0; j < within; ++j) {
        ds[j] = lanes::dot(dy, call.value + (row * keys + j) * depth, depth);
        mean += p[j] * ds[j];
      }
      for (std::int64_t j = 0; j < within; ++j)
        ds[j] = p[j] * (ds[j] - mean);
      for (std::int64_t d = 0; d < depth; d += Lanes) {
        vec gradient, sum;
        lanes::load(dy + d, depth - d, gradient);
        for (std::int64_t j = 0; j < within; ++j) {
          float* into = dvalue + (row * keys + j) * depth + d;
          lanes::load(into, depth - d, sum);
          sum += gradient * p[j];
          lanes::store(into, depth - d, sum);
        }
      }
      for (std::int64_t f = 0; f < features; f += Lanes) {
        const std::int64_t valid = features - f;
        vec q, v, k, dk, dv{}, dq{}, sum;
        lanes::load(call.query + i * features + f, valid, q);
        lanes::load(call.bias + f, valid, sum);
        q += sum;
        lanes::load(call.vector + f, valid, v);
        v *= call.factor;
        for (std::int64_t j = 0; j < within; ++j) {
          const std::int64_t at = (row * keys + j) * features + f;
          lanes::load(call.key + at, valid, k);
          vec t = q + k;
          tanh_in_place<Lanes>(t);
          dv += t * ds[j];
          const vec inner = v * (1.0F - t * t) * ds[j];
          dq += inner;
          lanes::load(dkey + at, valid, dk);
          dk += inner;
          lanes::store(dkey + at, valid, dk);
        }
        lanes::store(dquery + i * features + f, valid, dq);
        lanes::load(own_vector + f, valid, sum);
        sum += dv;
        lanes::store(own_vector + f, valid, sum);
        lanes::load(own_bias + f, valid, sum);
        sum += dq;
        lanes::store(own_bias + f, valid, sum);
      }
    }
  }
};

// Calls body(row, member) for each row of the batch.
template <class Body>
void for_each_row(const attention_call& call, const Body& body) {
  constexpr std::int64_t worth_a_team = 1 << 14;
  const bool serial = call.rows * call.queries * call.keys * call.features < worth_a_team;
#pragma omp parallel for schedule(dynamic) num_threads(serial ? 1 : omp_get_max_threads())
  for (std::int64_t row = 0; row < call.rows; ++row)
    body(row, omp_get_thread_num());
}

} // namespace

additive_result onednn_recurrent::additive_attention(const additive_inputs& inputs) {
  const attention_call call(inputs);
  additive_result result;
  result.context = context_.allocate(dtype::f32, {call.rows, call.queries, call.depth}, memory_use::activations);
  result.probabilities = context_.allocate(dtype::f32, {call.rows, call.queries, call.keys}, memory_use::activations);
  const tensor scores = scratch(omp_get_max_threads() * call.padded_keys());
  float *each = scores.data<float>(), *p = result.probabilities.data<float>(), *y = result.context.data<float>();
  for_each_row(call, [&](std::int64_t row, int member) {
    call_with_lanes(widest_vectors(), [&]<int Lanes>() PENSTOCK_VECTORIZED {
      call.forward<Lanes>(row, each + member * call.padded_keys(), p, y);
    });
  });
  return result;
}

additive_gradients onednn_recurrent::additive_attention_backward(const additive_inputs& inputs,
                                                                 const tensor& probabilities, const tensor& dcontext) {
  const attention_call call(inputs);
  const auto like = [&](const tensor& x) { return context_.allocate(dtype::f32, x.dims(), memory_use::gradients); };
  additive_gradients result{like(inputs.query),  like(inputs.key),    like(inputs.value),
                            like(inputs.vector), like(inputs.scalar), like(inputs.bias)};
  const tensor scores = scratch(omp_get_max_threads() * call.padded_keys());
  const tensor by_rows = scratch(2 * call.rows * call.features);
  const attention_slopes slopes{call,
                                probabilities.data<float>(),
                                dcontext.data<float>(),
                                result.query.data<float>(),
                                result.key.data<float>(),
                                result.value.data<float>(),
                                by_rows.data<float>(),
                                by_rows.data<float>() + call.rows * call.features};
  for_each_row(call, [&](std::int64_t row, int member) {
    call_with_lanes(widest_vectors(), [&]<int Lanes>() PENSTOCK_VECTORIZED {
      slopes.row_of<Lanes>(row, scores.data<float>() + member * call.padded_keys());
    });
  });
  // In the order of the batch; then from v to u and g, v = g u / |u|.
  const double norm = norm_of(inputs.vector), factor = static_cast<double>(inputs.scalar.data<float>()[0]) / norm;
  std::vector<double> dv(static_cast<std::size_t>(call.features));
  double along = 0;
  for (std::int64_t f = 0; f < call.features; ++f) {
    double bias = 0;
    for (std::int64_t row = 0; row < call.rows; ++row) {
      dv[static_cast<std::size_t>(f)] += static_cast<double>(slopes.dvector[row * call.features + f]);
      bias += static_cast<double>(slopes.dbias[row * call.features + f]);
    }
    result.bias.data<float>()[f] = static_cast<float>(bias);
    along += static_cast<double>(call.vector[f]) / norm * dv[static_cast<std::size_t>(f)];
  }
  for (std::int64_t f = 0; f < call.features; ++f)
    result.vector.data<float>()[f] = static_cast<float>(
        factor * (dv[static_cast<std::size_t>(f)] - static_cast<double>(call.vector[f]) / norm * along));
  result.scalar.data<float>()[0] = static_cast<float>(along);
  return result;
}

} // namespace penstock
