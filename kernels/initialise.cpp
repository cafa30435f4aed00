// Fills parameters by a counter-based generator, so that chunks may be filled by several threads in any order.
#include "kernels/initialise.hpp"

#include "kernels/check.hpp"
#include "kernels/device.hpp"
#include "kernels/finite.hpp"
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
  float* out = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  random_words words;
  initializer init;
};

constexpr std::int64_t chunk_elements = 1 << 18; // a MB, some 0.2 ms
constexpr std::size_t chunks_worth_a_thread = 4;
constexpr std::int64_t piece_elements = std::int64_t{4} << 20; // drawn and reordered while in cache

void fill(const chunk& c) {
  switch (c.init.kind) {
  case initializer_kind::constant:
    std::fill_n(c.out, c.end - c.begin, c.init.value);
    break;
  case initializer_kind::uniform:
    fill_uniform(c.out, c.begin, c.end, c.words, c.init.value);
    break;
  case initializer_kind::normal:
    fill_normal(c.out, c.begin, c.end, c.words, c.init.value);
    break;
  case initializer_kind::truncated_normal:
    fill_truncated_normal(c.out, c.begin, c.end, c.words, c.init.value, c.init.cut);
    break;
  }
  const std::int64_t from = std::max(c.begin, c.init.zeros_begin), to = std::min(c.end, c.init.zeros_end);
  if (from < to) std::fill(c.out + (from - c.begin), c.out + (to - c.begin), 0.0F);
}

// `first`: the place of values[0] in the parameter, even.
void add_chunks(std::vector<chunk>& chunks, std::span<float> values, const initializer& init, std::uint64_t seed,
                std::string_view name, std::int64_t first = 0) {
  check(init.kind != initializer_kind::truncated_normal || 8 * init.cut >= std::abs(init.value),
        "a truncated normal is cut at an eighth of its deviation or further out");
  const random_words words(seed, name);
  const auto size = static_cast<std::int64_t>(values.size());
  for (std::int64_t at = 0; at < size; at += chunk_elements)
    chunks.push_back({values.data() + at, first + at, first + std::min(size, at + chunk_elements), words, init});
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

// Whether all values are certain to be finite: sqrt(-2 ln 2^-33) < 6.77, so no normal is further than that from 0.
bool draws_finite(const initializer& init) {
  return std::abs(init.value) < std::numeric_limits<float>::max() / 8;
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

namespace {

// Where the device reads the host's memory its own is drawn into, and nothing is copied.
class drawing_board {
public:
  explicit drawing_board(backend& ops) : shared_(ops.device().host_memory()) {}
  tensor sheet(const shape& dims, memory_use use) {
    allocator& memory = shared_ != nullptr ? *shared_ : own_;
    return tensor::allocate(memory, dtype::f32, dims, use);
  }
  /// May a sheet that was read by work on the device be drawn on again?
  bool can_be_wiped() const { return shared_ != nullptr; }

private:
  memory_pool* shared_;
  memory_pool own_;
};

} // namespace

tensor initial_parameter(backend& ops, const parameter_spec& spec, std::string_view name, const format_ptr& format,
                         std::uint64_t seed, int threads) {
  const auto draw = [&](const tensor& plain, std::int64_t first) {
    std::vector<chunk> chunks;
    const std::span<float> values(plain.data<float>(), static_cast<std::size_t>(plain.elements()));
    add_chunks(chunks, values, spec.init, seed, name, first);
    fill_all(chunks, threads);
    if (!draws_finite(spec.init)) require_finite(plain, "[weights] the initial value of " + std::string(name));
  };
  drawing_board board(ops);
  const bool goes_in_pieces =
      format != nullptr && spec.dims.size() == 2 && spec.dims[0] > backend::row_block && draws_finite(spec.init);
  if (!goes_in_pieces) {
    const auto plain = board.sheet(spec.dims, memory_use::weights);
    draw(plain, 0);
    return ops.reorder(ops.from_host(plain, memory_use::weights), format, memory_use::weights);
  }
  auto target = ops.allocate(dtype::f32, spec.dims, memory_use::weights, format);
  const std::int64_t row = spec.dims[1], blocks = std::max<std::int64_t>(piece_elements / row / backend::row_block, 1);
  tensor plain;
  for (std::int64_t first = 0; first < spec.dims[0]; first += blocks * backend::row_block) {
    const shape piece{std::min(blocks * backend::row_block, spec.dims[0] - first), row};
    if (!plain || plain.dims() != piece || !board.can_be_wiped()) plain = board.sheet(piece, memory_use::scratch);
    draw(plain, first * row);
    ops.reorder_rows(ops.from_host(plain, memory_use::scratch), first, target);
  }
  return target;
}

named_tensors initial_weights(const model& network, std::uint64_t seed, memory_pool& pool) {
  named_tensors weights;
  std::vector<chunk> chunks; // of all parameters, so that the threads share the work evenly
  for (int layer = 0; layer < static_cast<int>(network.layers().size()); ++layer) {
    for (const auto& spec : network.parameters(layer)) {
      if (weights.contains(spec.name)) continue; // tied
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
