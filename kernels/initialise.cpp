// Fills parameters by a counter-based generator, so that chunks may be filled by several threads in any order.
#include "kernels/initialise.hpp"

#include "kernels/check.hpp"
#include "kernels/random_fill.hpp"
#include "kernels/usable_cores.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <system_error>
#include <thread>

namespace penstock {

namespace {

/// A run of elements of one parameter; begins at an even element, so that pairs of normals stay together.
struct chunk {
  float* values = nullptr; // of the whole parameter
  std::int64_t begin = 0;
  std::int64_t end = 0;
  random_words words;
  initializer init;
};

constexpr std::int64_t chunk_elements = 1 << 18; // a MB, some 0.2 ms
constexpr std::size_t chunks_worth_a_thread = 4;

void fill(const chunk& c) {
  switch (c.init.kind) {
  case initializer_kind::constant:
    std::fill(c.values + c.begin, c.values + c.end, c.init.value);
    break;
  case initializer_kind::uniform:
    fill_uniform(c.values, c.begin, c.end, c.words, c.init.value);
    break;
  case initializer_kind::normal:
    fill_normal(c.values, c.begin, c.end, c.words, c.init.value);
    break;
  }
}

void add_chunks(std::vector<chunk>& chunks, std::span<float> values, const initializer& init, std::uint64_t seed,
                std::string_view name) {
  const random_words words(seed, name);
  const auto size = static_cast<std::int64_t>(values.size());
  for (std::int64_t begin = 0; begin < size; begin += chunk_elements) {
    chunks.push_back({values.data(), begin, std::min(size, begin + chunk_elements), words, init});
  }
}

void fill_all(const std::vector<chunk>& chunks, int threads) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (auto i = next++; i < chunks.size(); i = next++)
      fill(chunks[i]);
  };
  const auto most = static_cast<std::size_t>(threads > 0 ? threads : usable_cores());
  const auto wanted = std::min(most, chunks.size() / chunks_worth_a_thread);
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

void initialise(std::span<float> values, const initializer& init, std::uint64_t seed, std::string_view name,
                int threads) {
  std::vector<chunk> chunks;
  add_chunks(chunks, values, init, seed, name);
  fill_all(chunks, threads);
}

bool draws_finite(const initializer& init) {
  // sqrt(-2 ln 2^-33) is less than 6.77.
  return std::abs(init.value) < std::numeric_limits<float>::max() / 8;
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
  fill_all(chunks, 0);
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
