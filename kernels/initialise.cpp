// Fills parameters by a counter-based generator, so that chunks may be filled by several threads in any order.
#include "kernels/initialise.hpp"

#include "kernels/check.hpp"
#include "kernels/segment.hpp"
#include "kernels/usable_cores.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numbers>
#include <system_error>
#include <thread>

namespace penstock {

namespace {

constexpr std::uint64_t gamma = 0x9E3779B97F4A7C15U;

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

/// A run of elements of one parameter; begins at an even element, so that pairs of normals stay together.
struct chunk {
  float* values = nullptr; // of the whole parameter
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint64_t key = 0;
  initializer init;
};

constexpr std::int64_t chunk_elements = 1 << 20;

std::uint64_t word(const chunk& c, std::int64_t k) {
  return mix(c.key + (static_cast<std::uint64_t>(k) + 1) * gamma);
}

void fill_uniform(const chunk& c) {
  for (std::int64_t i = c.begin; i < c.end; ++i) {
    const double u = (static_cast<double>(word(c, i) >> 11) + 0.5) * 0x1p-53;
    c.values[i] = static_cast<float>(c.init.value * (2 * u - 1));
  }
}

void fill_normal(const chunk& c) {
  for (std::int64_t i = c.begin; i < c.end; i += 2) {
    const auto bits = word(c, i / 2);
    const double u1 = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
    const double u2 = (static_cast<double>(bits & 0xFFFFFFFFU) + 0.5) * 0x1p-32;
    const double radius = c.init.value * std::sqrt(-2 * std::log(u1));
    const double angle = 2 * std::numbers::pi * u2;
    c.values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < c.end) c.values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void fill(const chunk& c) {
  switch (c.init.kind) {
  case initializer_kind::constant:
    std::fill(c.values + c.begin, c.values + c.end, c.init.value);
    break;
  case initializer_kind::uniform:
    fill_uniform(c);
    break;
  case initializer_kind::normal:
    fill_normal(c);
    break;
  }
}

void add_chunks(std::vector<chunk>& chunks, std::span<float> values, const initializer& init, std::uint64_t seed,
                std::string_view name) {
  const auto key = mix(mix(seed + gamma) ^ name_hash(name));
  const auto size = static_cast<std::int64_t>(values.size());
  for (std::int64_t begin = 0; begin < size; begin += chunk_elements) {
    chunks.push_back({values.data(), begin, std::min(size, begin + chunk_elements), key, init});
  }
}

void fill_all(const std::vector<chunk>& chunks) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (auto i = next++; i < chunks.size(); i = next++)
      fill(chunks[i]);
  };
  const auto wanted = std::min(static_cast<std::size_t>(usable_cores()), chunks.size() / 4);
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < wanted; ++i)
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error&) { // no memory for one more: then by fewer
      break;
    }
  work();
}

template <class T>
void fill_constant(tensor& t, float value) {
  std::fill_n(t.data<T>(), t.elements(), static_cast<T>(value));
}

} // namespace

void initialise(std::span<float> values, const initializer& init, std::uint64_t seed, std::string_view name) {
  std::vector<chunk> chunks;
  add_chunks(chunks, values, init, seed, name);
  fill_all(chunks);
}

named_tensors initial_weights(const model& network, std::uint64_t seed, memory_pool& pool) {
  named_tensors weights;
  std::vector<chunk> chunks; // of all parameters, so that the threads share the work evenly
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer) {
    for (const auto& spec : network.parameters(layer)) {
      auto values = tensor::allocate(pool, dtype::f32, spec.dims, memory_use::weights);
      const std::span<float> span(values.data<float>(), static_cast<std::size_t>(values.elements()));
      add_chunks(chunks, span, spec.init, seed, spec.name);
      weights.emplace(spec.name, std::move(values));
    }
  }
  fill_all(chunks);
  return weights;
}

named_tensors initial_states(const model& network, memory_pool& pool) {
  named_tensors states;
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer) {
    for (const auto& spec : network.states(layer)) {
      auto values = tensor::allocate(pool, spec.type, spec.dims, memory_use::weights);
      if (spec.type == dtype::f32) {
        fill_constant<float>(values, spec.initial);
      } else {
        check(spec.type == dtype::i64, "states are f32 or i64");
        fill_constant<std::int64_t>(values, spec.initial);
      }
      states.emplace(spec.name, std::move(values));
    }
  }
  return states;
}

} // namespace penstock
